"""What plain `generate` gives, request by request, and how far a difference from it may be forgiven."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.backends.model_store import LoadedModel
from tests.figures import tell

#: Rounding may turn the order of two candidates whose logits are closer than this.
TIE = 1e-3


def generate(loaded: LoadedModel, prompt: Sequence[int], max_tokens: int) -> list[int]:
    """Greedy output tokens for one prompt alone, until the model ends or `max_tokens` are there."""
    import torch

    ids = torch.tensor([list(prompt)], device=loaded.device)
    with torch.inference_mode():
        result = loaded.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False
        )
    tokens: list[int] = result[0, len(prompt) :].tolist()
    return tokens


def top_two_margin(loaded: LoadedModel, token_ids: Sequence[int]) -> float:
    """How far apart the two best next-token logits after `token_ids` are."""
    import torch

    with torch.inference_mode():
        logits = loaded.model(torch.tensor([list(token_ids)], device=loaded.device)).logits[0, -1].float()
    best, second = torch.topk(logits, 2).values.tolist()
    return float(best - second)


def assert_same_tokens(loaded: LoadedModel, prompt: Sequence[int], got: Sequence[int], expected: Sequence[int]) -> None:
    """Equal, or first different at a tie, which is printed; what follows a tie may be anything."""
    if list(got) == list(expected):
        return
    pairs = enumerate(zip(got, expected, strict=False))
    first = next((i for i, (one, other) in pairs if one != other), min(len(got), len(expected)))
    margin = top_two_margin(loaded, [*prompt, *expected[:first]])
    differing = f"got {list(got)[first:][:3]}, expected {list(expected)[first:][:3]}"
    assert margin < TIE, f"margin {margin:.2e} at output token {first}: {differing}"
    tell(f"a tie: output token {first} differs at a top-two logit margin of {margin:.2e}")
