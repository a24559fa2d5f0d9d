"""What a session returns, and how often: anchors, their return types, batches of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from popart.enums import AnchorReturnTypeId, ExchangeStrategy, TileSet
from popart.errors import popart_exception

__all__ = ["AnchorReturnType", "DataFlow"]

_IDS = {
    "final": AnchorReturnTypeId.Final,
    "everyn": AnchorReturnTypeId.EveryN,
    "all": AnchorReturnTypeId.All,
    "sum": AnchorReturnTypeId.Sum,
}


class AnchorReturnType:
    """Which of the values of a step are returned.

    Parameters
    ----------
    anchorReturnTypeString
        ``All``, ``Final``, ``Sum`` or ``EveryN``, in whatever case.
    returnPeriod
        Of ``EveryN``, the number of batches from one value to the next.
    tileSet, exchangeStrategy
        Where and when it is copied; they change no value.

    Raises
    ------
    popart_exception
        When the type does not exist, or the period does not fit it.
    """

    def __init__(
        self,
        anchorReturnTypeString: str = "All",
        returnPeriod: int | TileSet = 0,
        tileSet: TileSet | ExchangeStrategy = TileSet.Compute,
        exchangeStrategy: ExchangeStrategy = ExchangeStrategy.JustInTime,
    ) -> None:
        period, strategy = 0, exchangeStrategy
        tiles = tileSet if isinstance(tileSet, TileSet) else TileSet.Compute
        if isinstance(returnPeriod, TileSet):
            # The form without a period: the tile set is the second argument.
            strategy = tileSet if isinstance(tileSet, ExchangeStrategy) else strategy
            tiles = returnPeriod
        else:
            period = int(returnPeriod)
        kind = _IDS.get(str(anchorReturnTypeString).lower())
        if kind is None:
            raise popart_exception(
                f"Invalid anchor return type ID supplied: {anchorReturnTypeString}"
            )
        if kind is AnchorReturnTypeId.EveryN and period == 0:
            raise popart_exception("Must specify return period with option 'EVERYN'")
        if kind is AnchorReturnTypeId.EveryN and period < 0:
            raise popart_exception("Anchor return period must be greater than zero")
        if kind is not AnchorReturnTypeId.EveryN and period:
            raise popart_exception(
                "A return period should not be supplied for this anchor return type"
            )
        self._kind, self._period = kind, period
        self._tile_set, self._strategy = tiles, strategy

    def id(self) -> AnchorReturnTypeId:
        """Return the type."""
        return self._kind

    def rp(self) -> int:
        """Return the period.

        Raises
        ------
        popart_exception
            For all types but ``EveryN``.
        """
        if self._kind is not AnchorReturnTypeId.EveryN:
            raise popart_exception(
                "A return period should not be supplied for this anchor return type"
            )
        return self._period

    def tileSet(self) -> TileSet:
        """Return the tiles of the copy."""
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        """Return when it is copied."""
        return self._strategy


class DataFlow:
    """The batches of a step, and the anchors with their return types.

    Parameters
    ----------
    batchesPerStep
        Batches that one call of ``run`` takes.
    anchorTensors
        Return types by the names of anchors, or the names alone.
    anchorReturnType
        Of all anchors where they are names.

    Raises
    ------
    popart_exception
        When the number of batches is not above 0, or a period does not divide it.
    """

    def __init__(
        self,
        batchesPerStep: int = 0,
        anchorTensors: Mapping[str, AnchorReturnType] | Sequence[str] | None = None,
        anchorReturnType: AnchorReturnType | None = None,
        *,
        anchorIds: Sequence[str] | None = None,
    ) -> None:
        anchors = anchorTensors if anchorIds is None else anchorIds
        if not isinstance(anchors, Mapping):
            kind = AnchorReturnType("All") if anchorReturnType is None else anchorReturnType
            anchors = dict.fromkeys(anchors or (), kind)
        self._anchors = dict(anchors)
        self.setBatchesPerStep(batchesPerStep)

    def setBatchesPerStep(self, batchesPerStep: int) -> None:
        """Set the batches of a step.

        Raises
        ------
        popart_exception
            When it is not above 0, or a period does not divide it.
        """
        if batchesPerStep <= 0:
            raise popart_exception("'Batches per step' must be greater than zero")
        for kind in self._anchors.values():
            if kind.id() is not AnchorReturnTypeId.EveryN:
                continue
            if kind.rp() > batchesPerStep:
                raise popart_exception(
                    "Return period must be less than or equal to the number of batches per step"
                )
            if batchesPerStep % kind.rp():
                raise popart_exception(
                    "Return period must be a factor of the number of batches per step"
                )
        self._batches = int(batchesPerStep)

    def batchesPerStep(self) -> int:
        """Return the batches of a step."""
        return self._batches

    def anchors(self) -> list[str]:
        """Return the names of the anchors."""
        return list(self._anchors)

    def nAnchors(self) -> int:
        """Return the number of anchors."""
        return len(self._anchors)

    def isAnchored(self, name: str) -> bool:
        """Return whether a tensor is an anchor."""
        return name in self._anchors

    def art(self, name: str) -> AnchorReturnType:
        """Return the return type of an anchor.

        Raises
        ------
        popart_exception
            When it is none.
        """
        if name not in self._anchors:
            raise popart_exception(f"{name!r} is no anchor: they are {', '.join(self._anchors)}")
        return self._anchors[name]
