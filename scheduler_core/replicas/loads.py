"""What a router knows of its replicas: who is alive, and how many tokens each still owes."""

from __future__ import annotations

from bisect import insort


class Loads:
    """Outstanding tokens by replica.

    A request counts with its prompt and all the output that it may have, from its routing on; the prompt is paid with
    the first token, each token with itself, and what is left with its end. So a router needs no word of a replica but
    the tokens that pass through it.
    """

    def __init__(self, num_replicas: int) -> None:
        self.alive = list(range(num_replicas))
        self.tokens = [0] * num_replicas
        self.total = 0
        self._owed: dict[str, tuple[int, int, int]] = {}

    @property
    def mean(self) -> float:
        return self.total / len(self.alive)

    @property
    def least(self) -> int:
        """The living replica with the fewest outstanding tokens; of equal ones the first."""
        return min(self.alive, key=self.tokens.__getitem__)

    def owed_by(self, replica: int) -> list[str]:
        """The requests that are there, in the order in which they were routed."""
        return [name for name, (where, _, _) in self._owed.items() if where == replica]

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._owed

    def add(self, request_id: str, replica: int, prompt: int, output: int) -> None:
        assert request_id not in self._owed, "a request is at one replica at a time"
        self._owed[request_id] = replica, prompt, output
        self._change(replica, prompt + output)

    def got_token(self, request_id: str) -> None:
        replica, prompt, output = self._owed[request_id]
        self._owed[request_id] = replica, 0, output - 1
        self._change(replica, -prompt - 1)

    def end(self, request_id: str) -> None:
        replica, prompt, output = self._owed.pop(request_id)
        self._change(replica, -prompt - output)

    def bury(self, replica: int) -> None:
        """Take a replica out that owes nothing any more."""
        assert self.tokens[replica] == 0, "its requests go elsewhere first"
        self.alive.remove(replica)

    def revive(self, replica: int) -> None:
        """Take a replica in again, which owes nothing."""
        assert replica not in self.alive, "only who is gone comes back"
        insort(self.alive, replica)

    def _change(self, replica: int, tokens: int) -> None:
        self.tokens[replica] += tokens
        self.total += tokens
