"""What numba's compiler computes again and again, computed once.

Nothing here changes what is compiled. Every replacement of a method of numba first checks that the
method exists and takes what it is expected to take; otherwise numba's own stays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from numba.core import (
    analysis,
    base,
    compiler_machinery,
    cpu,
    errors,
    event,
    ir,
    ir_utils,
    postproc,
    targetconfig,
    types,
)
from numba.core.transforms import canonicalize_cfg
from numba.core.typing.context import BaseContext as TypingContext

__all__ = ["install", "replace_method"]

#: numba declares only a part of this module.
_errors: Any = errors


def replace_method(
    owner: Any, name: str, parameters: str, make: Callable[[Any], Any], uses: str = ""
) -> bool:
    """Replace a function of a class or module; return False, and leave it, if it is another one.

    Parameters
    ----------
    owner, name
        Class or module, and the name of the function there.
    parameters
        Names of the parameters that the function is expected to have, separated by spaces.
    make
        Takes the function and returns its replacement, of the same parameters.
    uses
        Names that the code of the function is expected to refer to.
    """
    found = vars(owner).get(name)
    if (
        not inspect.isfunction(found)
        or [*inspect.signature(found).parameters] != parameters.split()
    ):
        return False
    code = found.__code__
    if not set(uses.split()) <= {*code.co_names, *code.co_freevars}:
        return False
    setattr(owner, name, functools.wraps(found)(make(found)))
    return True


def _flags_hash(original: Any) -> Any:
    """Hash the names of options, as numba does: they are those of the class."""
    known: dict[type, int] = {}

    def hashed(self: Any) -> int:
        kind = type(self)
        if kind not in known:
            known[kind] = original(self)
        return known[kind]

    return hashed


def _flags_equal(original: Any) -> Any:
    """Compare all options only if those that are set differ."""

    def equal(self: Any, other: Any) -> Any:
        if self is other or (type(self) is type(other) and self._values == other._values):
            return True
        return original(self, other)

    return equal


def _call_type(original: Any) -> Any:
    """Keep the signatures of a function by the types of its arguments.

    Templates keep what they compiled for types, whatever the flags: signatures of one set of flags
    are kept only until the function is resolved with others.
    """
    kept: dict[int, tuple[Any, Any, dict[Any, Any]]] = {}

    def resolved(self: Any, context: Any, args: Any, kws: Any) -> Any:
        flags = targetconfig.ConfigStack.top_or_none()
        is_typed = all(isinstance(kind, types.Type) for kind in args)  # else a constant index
        if type(self) is not types.Function or flags is None or not is_typed:
            return original(self, context, args, kws)
        function, known_flags, signatures = kept.get(id(self), (None, None, {}))
        if function is not self or known_flags != flags:
            signatures = {}
            kept[id(self)] = self, flags, signatures
        key = (context, tuple(args), tuple(dict(kws).items()))
        found = signatures.get(key)
        if found is None:
            found = original(self, context, args, kws)
            if found is not None and found.return_type.is_precise():
                signatures[key] = found
        return found

    return resolved


def _n_registered(context: Any) -> int:
    """Return the number of declarations in the registries of a target, or of types."""
    of_types = getattr(context, "typing_context", context)
    registries = {*context._registries, *of_types._registries}
    lists = (found for registry in registries for found in vars(registry).values())
    return sum(len(found) for found in lists if isinstance(found, list))


def _refresh(original: Any) -> Any:
    """Look through the registries only if something was declared since."""
    seen: dict[int, tuple[Any, int]] = {}

    def refresh(self: Any) -> None:
        context, n_seen = seen.get(id(self), (None, -1))
        if context is not self or _n_registered(self) != n_seen:
            original(self)
            seen[id(self)] = (self, _n_registered(self))

    return refresh


def _list_variables(original: Any) -> Any:
    """List the variables of an instruction in one loop, without a list of every part."""
    kinds = (ir.Var, ir.Inst, list, tuple, dict)

    def listed(self: Any, val: Any) -> list[Any]:
        if type(val) is dict:
            found: list[Any] = []
            for part in val.values():
                if type(part) is ir.Var:
                    found.append(part)
                elif isinstance(part, kinds):
                    found += listed(self, part)
            return found
        rest: list[Any] = original(self, val)
        return rest

    return listed


def _post_process(original: Any) -> Any:
    """Leave the liveness of variables to those who ask for it, after every pass."""

    def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = self.func_ir
        if function.is_generator:
            original(self, emit_dels, extend_lifetimes)
            return
        function.blocks = canonicalize_cfg(function.blocks)
        function.variable_lifetime = postproc.VariableLifetime(function.blocks)
        function.block_entry_vars = {}
        function.generator_info = None
        if emit_dels:
            self._insert_var_dels(extend_lifetimes=extend_lifetimes)

    return run


def _entry_variables(original: Any) -> Any:
    """Find the variables of a block on entry when they are asked for."""

    def found(self: Any, block: Any) -> Any:
        if block not in self.block_entry_vars and self.variable_lifetime is not None:
            lifetime = self.variable_lifetime
            live = analysis.compute_live_variables(
                lifetime.cfg, self.blocks, lifetime.usedefs.defmap, lifetime.deadmaps.combined
            )
            for offset, each in self.blocks.items():
                self.block_entry_vars[each] = live[offset]
        return original(self, block)

    return found


def _run_pass(original: Any) -> Any:
    """Describe a pass only to those who listen, and do not time it."""
    untimed = compiler_machinery.pass_timings(0.0, 0.0, 0.0)

    def run(self: Any, index: Any, pss: Any, internal_state: Any) -> None:
        wants_print = self._print_before or self._print_after or self._print_wrap
        if wants_print or event._registered["numba:run_pass"]:
            original(self, index, pss, internal_state)
            return
        pss.analysis = self._analysis
        with _errors.new_error_context("Pass {name}", name=pss.name()):
            results = [
                pss.run_initialization(internal_state),
                pss.run_pass(internal_state),
                pss.run_finalizer(internal_state),
            ]
        function = internal_state.func_ir
        if isinstance(pss, compiler_machinery.FunctionPass):
            ir_utils.enforce_no_dels(function)
        if self._ENFORCING:
            if compiler_machinery._pass_registry.get(type(pss)).mutates_CFG:
                if any(results):
                    postproc.PostProcessor(function).run()
                else:
                    function.blocks = canonicalize_cfg(function.blocks)
            if not ir_utils.legalize_single_scope(function.blocks):
                raise errors.CompilerError(f"multiple scope in func_ir detected in {pss}")
        self.exec_times[f"{index}_{pss.name()}"] = untimed

    return run


def _has_place(original: Any) -> Any:
    """Look at the parameters of an implementation once."""
    return functools.lru_cache(maxsize=None)(original)


def _wrapper(original: Any) -> Any:
    """Leave out the wrappers, for Python and C, of functions of numba that only kernels call."""

    def create(self: Any, library: Any, fndesc: Any, *others: Any, **named: Any) -> None:
        is_own = fndesc.modname.startswith(("numba.np.", "numba.cpython."))
        if not (is_own and getattr(library, "is_linked", False)):
            original(self, library, fndesc, *others, **named)

    return create


def _abi_size(original: Any) -> Any:
    """Ask LLVM once for the size of a type: its answer takes a module in text."""
    sizes: dict[Any, int] = {}

    def size(self: Any, ty: Any) -> int:
        key = type(self), ty
        if key not in sizes:
            sizes[key] = original(self, ty)
        return sizes[key]

    return size


def install() -> None:
    """Replace the methods of numba."""
    flags, function = targetconfig.TargetConfig, types.functions.BaseFunction
    replace_method(flags, "__hash__", "self", _flags_hash, "sorted values")
    replace_method(flags, "__eq__", "self other", _flags_equal, "values")
    replace_method(function, "get_call_type", "self context args kws", _call_type, "_impl_keys")
    for context in (base.BaseContext, TypingContext):
        replace_method(context, "refresh", "self", _refresh, "load_additional_registries")
    parameters = "self library fndesc env call_helper"
    replace_method(cpu.CPUContext, "create_cfunc_wrapper", parameters, _wrapper)
    parameters += " release_gil"
    replace_method(cpu.CPUContext, "create_cpython_wrapper", parameters, _wrapper)
    replace_method(base, "_has_loc", "fn", _has_place)
    replace_method(base.BaseContext, "get_abi_sizeof", "self ty", _abi_size, "get_abi_size")
    replace_method(ir.Inst, "_rec_list_vars", "self val", _list_variables, "list_vars values")
    parts = "canonicalize_cfg VariableLifetime compute_live_variables is_generator _insert_var_dels"
    is_run = replace_method(
        postproc.PostProcessor, "run", "self emit_dels extend_lifetimes", _post_process, parts
    )
    if is_run:
        replace_method(ir.FunctionIR, "get_block_entry_vars", "self block", _entry_variables)
    parts = (
        "run_initialization run_pass run_finalizer enforce_no_dels _ENFORCING mutates_CFG"
        " PostProcessor canonicalize_cfg legalize_single_scope exec_times _print_before"
    )
    replace_method(
        compiler_machinery.PassManager,
        "_runPass",
        "self index pss internal_state",
        _run_pass,
        parts,
    )
