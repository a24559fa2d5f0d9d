"""Object code in this process: its functions by address."""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Iterator
from threading import Lock
from typing import Any

from llvmlite import binding

from tilescope.engine.host.jit.code_files import Code

__all__ = ["is_complete", "load"]

_LOCK = Lock()
#: Functions of the code linked so far, by symbol; it is that of one compilation.
_ADDRESSES: dict[str, int] = {}
#: A table of symbols, in a file of object code.
_SYMTAB = 2
_SYMBOL_BYTES = 24


@functools.cache
def _engine() -> Any:
    """Return what links object code into the process, and keeps it."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(codemodel="jitdefault", jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _undefined(machine_code: bytes) -> Iterator[str]:
    """Yield the symbols that object code expects elsewhere: 64-bit ELF, little-endian.

    Source: System V ABI, edition 4.1, chapter 4, sections "Section Header" and "Symbol Table".
    """
    (offset,) = struct.unpack_from("<Q", machine_code, 0x28)
    entry_bytes, n_sections = struct.unpack_from("<HH", machine_code, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", machine_code, offset + k * entry_bytes)
        for k in range(n_sections)
    ]
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        begin, n_bytes, names = section[4], section[5], sections[section[6]][4]
        for symbol_offset in range(begin, begin + n_bytes, _SYMBOL_BYTES):
            name, _, _, defined_in = struct.unpack_from("<IBBH", machine_code, symbol_offset)
            if name and not defined_in:
                end = machine_code.index(b"\0", names + name)
                yield machine_code[names + name : end].decode()


def is_complete(code: Code) -> bool:
    """Return whether this process has everything that the code calls; LLVM ends it otherwise.

    numba is imported if something is missing: lists and arrays that a kernel makes are its own.
    """
    is_elf = code.machine_code[:6] == b"\x7fELF\x02\x01"
    if sys.platform == "linux" and not is_elf:
        return False
    if code.symbol.encode() + b"\0" not in code.machine_code:
        return False
    try:
        if is_elf and _has_all(code.machine_code):
            return True
    except (struct.error, ArithmeticError, LookupError, ValueError):
        return False  # its tables point out of the file
    from tilescope.engine.host.jit.compiler import declare_runtime

    declare_runtime()
    return not is_elf or _has_all(code.machine_code)


def _has_all(machine_code: bytes) -> bool:
    _engine()  # makes functions of the process known to LLVM
    return all(binding.address_of_symbol(name) for name in _undefined(machine_code))


def load(code: Code) -> int:
    """Return the address of the function of complete code, which is linked once."""
    engine = _engine()
    with _LOCK:
        if code.symbol in _ADDRESSES:
            return _ADDRESSES[code.symbol]
        engine.add_object_file(binding.ObjectFileRef.from_data(code.machine_code))
        engine.finalize_object()
        _ADDRESSES[code.symbol] = int(engine.get_function_address(code.symbol))
        return _ADDRESSES[code.symbol]
