"""Conditions, loops and scans: graphs inside the program become regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.engine.frontend.torch.emission import Emission, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _value_of(emit: Emission, given: Any) -> Value:
    """Return an operand of a graph as a value: numbers that a loop changes are tensors of it."""
    if isinstance(given, Value):
        return given
    dtype = "bool" if isinstance(given, bool) else "int64" if isinstance(given, int) else "float32"
    return emit.constant(given, dtype)


def _single(results: Any) -> Any:
    """Return the only result of a graph, which is one or a sequence of one."""
    return results[0] if isinstance(results, list | tuple) else results


def _cond(
    emit: Emission, predicate: Any, if_true: Any, if_false: Any, operands: Sequence[Any] = ()
) -> list[Value]:
    if not isinstance(predicate, Value):
        return list(emit.inlined(if_true if predicate else if_false, operands))
    regions = {
        "then_branch": emit.region("then_branch", if_true, (), operands),
        "else_branch": emit.region("else_branch", if_false, (), operands),
    }
    condition = emit.reshape(emit.cast(predicate, "bool"), ())
    return list(emit.results(len(regions["then_branch"].outputs), "If", condition, **regions))


def _while_loop(
    emit: Emission,
    condition: Any,
    body: Any,
    carried: Sequence[Any],
    additional: Sequence[Any] = (),
) -> list[Value]:
    states = [_value_of(emit, item) for item in carried]
    begins = _single(emit.inlined(condition, [*states, *additional]))

    def goes_on(inside: Emission, results: Sequence[Any]) -> list[Value]:
        after = [_value_of(inside, item) for item in results]
        again = _single(inside.inlined(condition, [*after, *additional]))
        return [inside.reshape(_value_of(inside, again), ()), *after]

    types = [((), "int64"), ((), "bool"), *((s.shape, s.dtype) for s in states)]
    region = emit.region("body", body, types, additional, skipped=2, wrap=goes_on)
    first = emit.reshape(_value_of(emit, begins), ())
    return list(emit.results(len(states), "Loop", None, first, *states, body=region))


def _scan(
    emit: Emission,
    combine: Any,
    init: Sequence[Value],
    xs: Sequence[Value],
    additional: Sequence[Any] = (),
    **_: Any,
) -> list[Value]:
    types = [(value.shape, value.dtype) for value in init]
    types += [(value.shape[1:], value.dtype) for value in xs]
    region = emit.region("body", combine, types, additional)
    n_results = len(region.outputs)
    return list(emit.results(n_results, "Scan", *init, *xs, body=region, num_scan_inputs=len(xs)))


def _map(emit: Emission, body: Any, xs: Sequence[Value], additional: Sequence[Any] = ()) -> Any:
    return _scan(emit, body, (), xs, additional)


def _inlined(emit: Emission, body: Any, *operands: Any) -> Sequence[Any]:
    return emit.inlined(body, operands)


def _without_gradients(emit: Emission, is_enabled: bool, body: Any, *operands: Any) -> Any:
    results = emit.inlined(body, operands)
    if is_enabled:
        return results
    return [
        emit("ai.graphcore.Detach", item)
        if isinstance(item, Value) and item.known is None
        else item
        for item in results
    ]


def _autocast(
    emit: Emission, device: Any, dtype: Any, is_enabled: Any, cache: Any, body: Any, *operands: Any
) -> Sequence[Any]:
    return emit.inlined(body, operands)


RULES: Rules = {
    "higher_order.cond": _cond,
    "higher_order.map_impl": _map,
    "higher_order.scan": _scan,
    "higher_order.tag_activation_checkpoint": _inlined,
    "higher_order.while_loop": _while_loop,
    "higher_order.wrap_with_autocast": _autocast,
    "higher_order.wrap_with_set_grad_enabled": _without_gradients,
}
