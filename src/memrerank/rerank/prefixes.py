"""Forward passes of a causal language model over many texts that begin alike.

What the texts of a group have in common at their beginning is computed once: its keys and values
are kept, and each text adds its own rest to them. The logits are those of plain passes over the
whole texts, up to rounding.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

log = logging.getLogger(__name__)

KEPT_BYTES = 1 << 30  # of keys and values that are kept for later batches
PACKED_TOKENS = 768  # in one sequence, each of which is compared with all others

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

    Rows that begin alike are packed into one sequence: each sees the kept beginning and itself, by
    its position ids and a mask, so that nothing is copied for it.

    Args:
        model: in evaluation mode.
        pad_id: of the tokens that fill up shorter rows where rows are read whole; never read.
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
        for places, logits in self._passes(rows, last_only=True):
            for place, row_logits in zip(places, logits, strict=True):
                found[place] = row_logits[-1, list(tokens)].float().cpu()  # [tokens]
        return found

    @torch.inference_mode()
    def mean_log_probs(self, rows: Sequence[Row]) -> torch.Tensor:
        """Mean log-probability of each row's rest but for its first token: float32 [rows].

        The first token of a rest only opens it; a rest has at least two.
        """
        found = torch.empty(len(rows))
        for places, logits in self._passes(rows, last_only=False):
            for place, row_logits in zip(places, logits, strict=True):
                wanted = torch.tensor(rows[place].rest[1:], device=row_logits.device)  # [n]
                steps = row_logits[-len(wanted) - 1 : -1].float()  # [n, V]
                log_probs = steps.log_softmax(-1).gather(-1, wanted[:, None])
                found[place] = log_probs.mean().cpu()
        return found

    def _passes(
        self, rows: Sequence[Row], *, last_only: bool
    ) -> Iterator[tuple[list[int], list[torch.Tensor]]]:
        """Batches: the rows' places, and each one's logits [positions of its rest, V].

        Args:
            last_only: only those of the last position are wanted.
        """
        groups: dict[tuple[int, ...], list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(row.shared if self.share else (), []).append(place)
        for shared, members in groups.items():
            members.sort(key=lambda place: len(rows[place]))
            for places in self._batches(members, rows, packed=bool(shared)):
                batch = [rows[place] for place in places]
                if shared:
                    yield places, self._packed(shared, batch, last_only=last_only)
                else:
                    texts = [row.shared + row.rest for row in batch]
                    yield places, self._whole(texts, 1 if last_only else 0)

    def _batches(
        self, members: Sequence[int], rows: Sequence[Row], *, packed: bool
    ) -> Iterator[list[int]]:
        """At most `batch_size` rows at once, and of packed ones no more than PACKED_TOKENS."""
        batch: list[int] = []
        size = 0
        for place in members:
            size += len(rows[place].rest)
            if batch and (len(batch) == self.batch_size or (packed and size > PACKED_TOKENS)):
                yield batch
                batch, size = [], len(rows[place].rest)
            batch.append(place)
        yield batch

    def _packed(
        self, shared: tuple[int, ...], batch: Sequence[Row], *, last_only: bool
    ) -> list[torch.Tensor]:
        """The logits of rows that begin with `shared`, in one sequence of all their rests."""
        device, dtype = self.model.device, self.model.dtype
        sizes = [len(row.rest) for row in batch]
        block = torch.repeat_interleave(torch.arange(len(batch)), torch.tensor(sizes))  # [N]
        offset = torch.cat([torch.arange(size) for size in sizes])  # [N]
        own = (block[:, None] == block) & (offset[:, None] >= offset)  # [N, N]
        seen = torch.cat([torch.ones(len(block), len(shared), dtype=torch.bool), own], dim=1)
        # Additive, as all attention implementations take it.
        mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
        ends = torch.tensor(sizes).cumsum(0) - 1
        logits = self.model(
            input_ids=torch.tensor([[token for row in batch for token in row.rest]], device=device),
            attention_mask=mask[None, None].to(device),  # [1, 1, N, P + N]
            position_ids=(len(shared) + offset)[None].to(device),
            cache=self._cache(shared),
            use_cache=True,
            logits_to_keep=ends.to(device) if last_only else 0,
        ).logits[0]  # [N or rows, V]
        return list(logits.split(1 if last_only else sizes))

    def _whole(self, texts: Sequence[tuple[int, ...]], keep: int) -> list[torch.Tensor]:
        """The logits of whole texts, filled up on the left; the last `keep`, 0 for all."""
        device = self.model.device
        longest = max(map(len, texts))
        ids = torch.full((len(texts), longest), self.pad_id)  # [B, L]
        mask = torch.zeros(len(texts), longest, dtype=torch.long)  # [B, L]
        for i, text in enumerate(texts):
            ids[i, longest - len(text) :] = torch.tensor(text)
            mask[i, longest - len(text) :] = 1
        positions = (mask.cumsum(-1) - 1).clamp(min=0)  # [B, L]
        logits = self.model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=positions.to(device),
            use_cache=False,
            logits_to_keep=keep,
        ).logits  # [B, L or keep, V]
        return list(logits)

    def _cache(self, shared: tuple[int, ...]) -> DynamicCache:
        """A cache that begins with a prefix's keys and values, which it leaves as they are."""
        cache = DynamicCache(config=self.model.config)
        for layer, (keys, values) in enumerate(self._prefix(shared)):
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
