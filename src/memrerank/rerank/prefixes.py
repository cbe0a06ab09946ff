"""Forward passes of a causal language model over many texts that begin alike.

What the texts of a group have in common at their beginning is computed once: its keys and values
are kept, and each text adds its own rest to them. The logits are those of plain passes over the
whole texts, up to rounding.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

log = logging.getLogger(__name__)

KEPT_BYTES = 1 << 30  # of keys and values that are kept for later batches

Pair = tuple[torch.Tensor, torch.Tensor]  # keys and values of a layer, each [1, heads, P, d]


@dataclass(frozen=True, slots=True)
class Row:
    """A text in token ids: `shared`, which others begin with as well, and its own `rest`."""

    shared: tuple[int, ...]
    rest: tuple[int, ...]  # at least one token

    def __len__(self) -> int:
        return len(self.shared) + len(self.rest)


class PrefixModel:
    """A language model that reads a shared beginning once.

    Args:
        model: in evaluation mode.
        pad_id: of the tokens that fill up shorter rows; never read.
        batch_size: rows in one pass.
        share: False reads every row whole, as a plain pass does.
    """

    def __init__(
        self, model: PreTrainedModel, pad_id: int, batch_size: int, *, share: bool = True
    ) -> None:
        self.model = model
        self.pad_id = pad_id
        self.batch_size = batch_size
        self.share = share and _can_share(model)
        self._kept: OrderedDict[tuple[int, ...], list[Pair]] = OrderedDict()
        self._kept_bytes = 0

    @torch.inference_mode()
    def last_logits(self, rows: Sequence[Row], tokens: Sequence[int]) -> torch.Tensor:
        """Logits of some tokens as the next one after each row: float32 [rows, tokens]."""
        found = torch.empty(len(rows), len(tokens))
        for places, logits in self._passes(rows, lambda _: 1):
            found[places] = logits[:, -1, list(tokens)].float().cpu()  # [B, tokens]
        return found

    @torch.inference_mode()
    def mean_log_probs(self, rows: Sequence[Row]) -> torch.Tensor:
        """Mean log-probability of each row's rest but for its first token: float32 [rows].

        The first token of a rest only opens it; a rest has at least two.
        """
        found = torch.empty(len(rows))
        for places, logits in self._passes(rows, lambda longest: longest):
            for place, row_logits in zip(places, logits, strict=True):
                wanted = torch.tensor(rows[place].rest[1:], device=logits.device)  # [n]
                steps = row_logits[-len(wanted) - 1 : -1].float()  # [n, V]
                log_probs = steps.log_softmax(-1).gather(-1, wanted[:, None])
                found[place] = log_probs.mean().cpu()
        return found

    def _passes(
        self, rows: Sequence[Row], keep: Callable[[int], int]
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Batches of rows of like length: their places, and logits [B, kept positions, V]."""
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i].rest), rows[i].shared))
        for start in range(0, len(order), self.batch_size):
            places = order[start : start + self.batch_size]
            batch = [rows[place] for place in places]
            if not self.share:
                batch = [Row((), row.shared + row.rest) for row in batch]
            longest = max(len(rows[place].rest) for place in places)
            yield places, self._forward(batch, keep(longest))

    def _forward(self, batch: Sequence[Row], keep: int) -> torch.Tensor:
        """Logits of the last `keep` positions, [B, keep, V]. Rows are filled up on the left."""
        device = self.model.device
        rest = max(len(row.rest) for row in batch)
        before = max(len(row.shared) for row in batch)
        ids = torch.full((len(batch), rest), self.pad_id)  # [B, R]
        mask = torch.zeros(len(batch), before + rest, dtype=torch.long)  # [B, P + R]
        positions = torch.zeros(len(batch), rest, dtype=torch.long)  # [B, R]
        for i, row in enumerate(batch):
            ids[i, rest - len(row.rest) :] = torch.tensor(row.rest)
            mask[i, before - len(row.shared) : before] = 1
            mask[i, before + rest - len(row.rest) :] = 1
            positions[i, rest - len(row.rest) :] = torch.arange(len(row.shared), len(row))
        cache = self._stacked(batch, before) if before else None
        out = self.model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=positions.to(device),
            cache=cache,
            use_cache=cache is not None,
            logits_to_keep=keep,
        )
        logits: torch.Tensor = out.logits
        return logits

    def _stacked(self, batch: Sequence[Row], before: int) -> DynamicCache:
        """The rows' shared keys and values as one cache, filled up on the left to `before`."""
        kept = {row.shared: self._prefix(row.shared) for row in batch if row.shared}
        some = next(iter(kept.values()))
        kept[()] = [(keys[..., :0, :], values[..., :0, :]) for keys, values in some]
        cache = DynamicCache(config=self.model.config)
        for layer in range(len(some)):
            keys, values = (
                torch.cat([_filled(kept[row.shared][layer][part], before) for row in batch])
                for part in (0, 1)
            )  # each [B, heads, P, d]
            cache.update(keys, values, layer)
        return cache

    def _prefix(self, shared: tuple[int, ...]) -> list[Pair]:
        """A prefix's keys and values, kept for the batches to come."""
        if shared in self._kept:
            self._kept.move_to_end(shared)
            return self._kept[shared]
        cache = DynamicCache(config=self.model.config)
        ids = torch.tensor([shared], device=self.model.device)  # [1, P]
        self.model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
        pairs = [
            (layer.keys, layer.values)
            for layer in cache.layers
            if isinstance(layer, DynamicLayer)
            and layer.keys is not None
            and layer.values is not None
        ]
        self._kept[shared] = pairs
        self._kept_bytes += _bytes(pairs)
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= _bytes(self._kept.popitem(last=False)[1])
        return pairs


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def _filled(pair: torch.Tensor, length: int) -> torch.Tensor:
    """Zeros on the left up to `length`: [1, heads, length, d]."""
    missing = length - pair.shape[-2]
    return torch.nn.functional.pad(pair, (0, 0, missing, 0)) if missing else pair


def _bytes(pairs: Sequence[Pair]) -> int:
    return sum(part.numel() * part.element_size() for pair in pairs for part in pair)


def _can_share(model: PreTrainedModel) -> bool:
    """Whether the model keeps plain keys and values in every layer."""
    layers = DynamicCache(config=model.config).layers
    if all(type(layer) is DynamicLayer for layer in layers):
        return True
    log.warning(
        "%s keeps something other than all keys and values (a sliding window, a state): the "
        "judge reads every prompt whole",
        type(model).__name__,
    )
    return False
