"""The figures of a machine: meaning, unit and allowed values."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FIGURES", "PARAMETER_SETS", "FigureSpec"]

PARAMETER_SETS = ("hardware", "ipu_model")


@dataclass(frozen=True)
class FigureSpec:
    """One figure: unit, meaning, and allowed range.

    A figure without ``is_used`` is only displayed; nothing is computed from it yet.
    """

    name: str
    unit: str
    meaning: str
    low: float
    high: float
    is_whole: bool = True
    is_used: bool = True

    @property
    def allowed(self) -> str:
        """Description of the allowed values."""
        kind = "an integer" if self.is_whole else "a number"
        return f"{kind} from {self.low:,g} to {_plain(self.high)}"


def _plain(number: float) -> str:
    return f"{int(number):,}" if float(number).is_integer() else f"{number:,g}"


def _whole(name: str, unit: str, meaning: str, low: int, high: int) -> FigureSpec:
    return FigureSpec(name, unit, meaning, low, high)


def _real(name: str, unit: str, meaning: str, low: float, high: float) -> FigureSpec:
    return FigureSpec(name, unit, meaning, low, high, is_whole=False)


def _shown(name: str, unit: str, meaning: str) -> FigureSpec:
    return FigureSpec(name, unit, meaning, 0, 1e18, is_whole=False, is_used=False)


_GIB = 1 << 30
_RATE = "bytes/cycle"

_TILE = (
    _whole("tiles_per_ipu", "tiles", "Tiles per IPU", 1, 1 << 16),
    _whole("n_worker_contexts", "contexts", "Worker contexts per tile", 1, 64),
    _whole("worker_start_cycles", "cycles", "Start and join of a vertex's workers", 0, 10**9),
    _real("clock_hz", "Hz", "Tile clock", 1e3, 1e12),
    _whole("data_path_bytes", _RATE, "Width of a load or store", 4, 1024),
    _whole("weight_load_bytes_per_cycle", _RATE, "AMP weight load", 1, 1024),
    _whole("half_conv_units", "units", "AMP units for half", 1, 1024),
    _whole("mixed_conv_units", "units", "AMP units for half with float partials", 1, 1024),
    _whole("float_conv_units", "units", "AMP units for float", 1, 1024),
    _whole("float8_conv_units", "units", "AMP units for float8; 0 if unsupported", 0, 1024),
    _whole("half_conv_inputs", "elements", "Input channels of an AMP pass for half", 1, 1024),
    _whole("float_conv_inputs", "elements", "Input channels of an AMP pass for float", 1, 1024),
    _whole("float8_conv_inputs", "elements", "Input channels of an AMP pass for float8", 0, 1024),
)
_MEMORY = (
    _whole("bytes_per_tile", "bytes", "Memory per tile", 1024, _GIB),
    _whole("non_interleaved_bytes", "bytes", "Non-interleaved region", 0, _GIB),
    _whole("interleaved_bytes", "bytes", "Interleaved region", 0, _GIB),
    _whole("memory_element_bytes", "bytes", "Memory element", 8, _GIB),
    _whole(
        "interleave_factor", "elements", "Elements that interleaved words alternate between", 1, 64
    ),
    _whole("stack_bytes", "bytes", "Stacks per tile", 0, _GIB),
    _whole("control_code_bytes", "bytes", "Control code, fixed part", 0, _GIB),
    _whole("control_code_bytes_per_step", "bytes", "Control code per step", 0, _GIB),
    _whole("exchange_code_bytes_per_phase", "bytes", "Exchange code per phase", 0, _GIB),
    _whole("exchange_code_bytes_per_source", "bytes", "Exchange code per source", 0, _GIB),
    _whole("exchange_code_bytes_per_pointer", "bytes", "Exchange code per pointer", 0, _GIB),
    _whole("exchange_code_bytes_per_send", "bytes", "Exchange code per send", 0, _GIB),
    _whole("host_exchange_code_bytes", "bytes", "Code per host copy", 0, _GIB),
    _whole("packet_header_bytes", "bytes", "Packet header per host copy", 0, _GIB),
    _whole("instrumentation_bytes_per_step", "bytes", "Cycle counter per step", 0, _GIB),
)
_EXCHANGE = (
    _real("exchange_bytes_per_cycle", _RATE, "Tile exchange, per direction", 0.001, 1e6),
    _real(
        "paired_exchange_bytes_per_cycle",
        _RATE,
        "Tile exchange of data received by both tiles of a pair",
        0.001,
        1e6,
    ),
    _whole("exchange_words_per_send", "words", "Words per send instruction", 1, 1 << 20),
    _whole("exchange_rows", "rows", "Physical rows of tiles", 1, 1 << 16),
    _whole("exchange_start_cycles", "cycles", "Sync to first payload", 0, 10**9),
    _whole("exchange_row_cycles", "cycles", "Additional latency per row", 0, 10**9),
    _whole("exchange_fragment_cycles", "cycles", "Control per received fragment", 0, 10**9),
    _whole(
        "exchange_is_scheduled",
        "",
        "1: a schedule of sends; 0: the busiest tile decides",
        0,
        1,
    ),
    _whole("sync_cycles", "cycles", "Internal sync", 0, 10**9),
    _whole("external_sync_fixed_cycles", "cycles", "External sync, fixed part", 0, 10**9),
    _real("external_sync_hop_cycles", "cycles", "External sync, per hop and back", 0, 1e9),
)
_BEYOND = (
    _whole("link_start_cycles", "cycles", "Sync to first byte over links", 0, 10**9),
    _real("link_bytes_per_cycle", _RATE, "IPU link, per direction", 0.001, 1e6),
    _whole(
        "n_pair_links", "links", "Links between the IPUs of a rung, for their own traffic", 1, 64
    ),
    _whole(
        "n_cross_links",
        "links",
        "Links over a rung, for traffic that continues along a rail",
        1,
        64,
    ),
    _whole("n_rail_links", "links", "Links along a rail, between rungs", 1, 64),
    _real("host_bytes_per_cycle", _RATE, "Host link per IPU", 0.001, 1e6),
    _real("streaming_bytes_per_cycle", _RATE, "Streaming memory per IPU", 0.001, 1e6),
    _whole("streaming_memory_bytes", "bytes", "Streaming memory per IPU", 0, 1 << 50),
    _whole("host_copy_cycles", "cycles", "Fixed part of a host copy", 0, 10**9),
    _whole("host_wait_cycles", "cycles", "Wait for the host at start and end of a copy", 0, 10**9),
)
_SHOWN = (
    _shown("address_bits", "bits", "Address space per tile"),
    _shown("local_load_cycles", "cycles", "Load latency, hidden by six worker contexts"),
    _shown("half_amp_flop_per_cycle", "FLOP/cycle", "AMP per tile, half"),
    _shown("float_amp_flop_per_cycle", "FLOP/cycle", "AMP per tile, float"),
    _shown("float8_amp_flop_per_cycle", "FLOP/cycle", "AMP per tile, float8"),
    _shown("interleaved_load_bytes", _RATE, "Load from the interleaved region"),
    _shown("exchange_columns", "columns", "Physical columns of tiles"),
    _shown("exchange_longest_words", "words", "Longest single transfer"),
    _shown("host_handshake_cycles", "cycles", "Start of a host copy with a tiny payload"),
    _shown("power_watts", "W", "Power per IPU"),
)

#: Figures by name, in display order.
FIGURES = {s.name: s for s in (*_TILE, *_MEMORY, *_EXCHANGE, *_BEYOND, *_SHOWN)}
