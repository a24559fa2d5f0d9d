"""Containers of other packages, which PyTorch takes apart once it is told how."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["NAMES", "register_containers"]

#: Key of the names of parts, in what is kept of a container besides them.
NAMES = "names"

_CACHE, _LAYOUT = ("key_cache", "value_cache"), "layout"
_PAIR = ("self_attention_cache", "cross_attention_cache")


def register_containers() -> None:
    """Register the caches of transformers, where that is imported and nobody has done so.

    The registration of transformers itself makes tensors when it puts a cache together, which an
    export takes for results.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None:
        return
    _register(transformers.DynamicCache, _cache_parts, _cache)
    _register(
        transformers.EncoderDecoderCache,
        lambda cache: ([getattr(cache, name) for name in _PAIR], {NAMES: [*_PAIR]}),
        lambda parts, _: transformers.EncoderDecoderCache(*parts),
    )


def _register(kind: Any, parts_of: Any, made_of: Any) -> None:
    from torch.utils import _pytree as pytree

    if kind in pytree.SUPPORTED_NODES:
        return

    def with_keys(container: Any) -> Any:
        parts, context = parts_of(container)
        keys = [pytree.GetAttrKey(name) for name in context[NAMES]]
        return list(zip(keys, parts, strict=True)), context

    pytree.register_pytree_node(
        kind,
        parts_of,
        made_of,
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=with_keys,
    )


def _cache_parts(cache: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return keys and values by layer, and the windows of the layers, None for those without."""
    layers = [layer for layer in cache.layers if layer.keys is not None]
    windows = [getattr(layer, "sliding_window", None) for layer in layers]
    parts = [[layer.keys for layer in layers], [layer.values for layer in layers]]
    return parts, {NAMES: [*_CACHE], _LAYOUT: windows}


def _cache(parts: Sequence[Sequence[Any]], context: dict[str, Any]) -> Any:
    """Return a cache of keys and values."""
    from transformers import DynamicCache, cache_utils

    cache = DynamicCache()
    for keys, values, window in zip(*parts, context[_LAYOUT], strict=True):
        if window is None:
            layer = cache_utils.DynamicLayer()
        else:
            layer = cache_utils.DynamicSlidingWindowLayer(sliding_window=window)
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        layer.dtype, layer.device = getattr(keys, "dtype", None), getattr(keys, "device", None)
        cache.layers.append(layer)
    return cache
