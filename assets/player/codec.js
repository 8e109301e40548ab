// Numbers as letters, five bits a letter; the other half is pages/components/player_payload.py.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUE_OF = new Int8Array(128).fill(-1);
for (let i = 0; i < 64; i += 1) VALUE_OF[DIGITS.charCodeAt(i)] = i;

/** The whole numbers that `text` stands for. Multiplies instead of shifting: microseconds pass 32 bits. */
function unpack(text) {
  const numbers = [];
  let number = 0;
  let weight = 1;
  for (let i = 0; i < text.length; i += 1) {
    const digit = VALUE_OF[text.charCodeAt(i)];
    if (digit < 0 || digit === undefined) throw new Error(`"${text[i]}" is no digit`);
    number += (digit & 31) * weight;
    if (digit > 31) {
      weight *= 32;
    } else {
      numbers.push(number);
      number = 0;
      weight = 1;
    }
  }
  return numbers;
}

/** A column of `length` values, from runs of equal ones. */
function unpackLevels(text, length, column = new Int32Array(length)) {
  const runs = unpack(text);
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) {
    column.fill(runs[i], at, at + runs[i + 1]);
    at += runs[i + 1];
  }
  return column;
}

/** A column of `length` values, from runs of equal steps. */
function unpackRamps(text, length) {
  const runs = unpack(text);
  const column = new Int32Array(length);
  let at = 0;
  let value = 0;
  for (let i = 0; i < runs.length; i += 2) {
    const step = runs[i] % 2 ? -(runs[i] + 1) / 2 : runs[i] / 2;
    for (let k = 0; k < runs[i + 1]; k += 1) column[at++] = value += step;
  }
  return column;
}

/** Running sums. */
function summed(steps) {
  let sum = 0;
  return steps.map((step) => (sum += step));
}

/** Changes of a list over time: what it is at a tick. */
class ListHistory {
  constructor(text) {
    this.ticks = [];
    this.lists = [];
    const numbers = unpack(text);
    for (let i = 0, tick = 0; i < numbers.length; ) {
      tick += numbers[i];
      const length = numbers[i + 1];
      this.ticks.push(tick);
      this.lists.push(numbers.slice(i + 2, i + 2 + length));
      i += 2 + length;
    }
  }

  at(tick) {
    const i = lastAtOrBefore(this.ticks, tick);
    return i < 0 ? NOTHING : this.lists[i];
  }
}

const NOTHING = Object.freeze([]);

/** The place of the last of some rising numbers that is not above `value`; -1 if there is none. */
function lastAtOrBefore(rising, value) {
  let low = 0;
  let high = rising.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rising[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
