// One report or two: where the bars of a row come from, and the order of the rows.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  space.SIDES = ['baseline', 'candidate'];

  // What two reports are aligned by; nothing for one report.
  space.alignment = (view) => {
    if (!view.with) return '';
    return ['step', 'cycle', 'time'].includes(view.align) ? view.align : 'step';
  };

  space.sourcesOf = (report, other, align) => {
    if (!other) {
      const {early} = space;
      return [early && early.report === report ? early.source : new space.Source(report)];
    }
    return [report, other].map(
      (own, side) => new space.Source(own, {report, with: other, align, side}),
    );
  };

  space.groupKey = (ipu, track, side) => ipu + '.' + track + (side ? '.' + side : '');

  // Tracks of all sides; the rows of one track stand one above the other.
  space.tracksOf = (extents) => extents
    .flatMap(({tracks}, side) => tracks.map((track) => ({...track, side})))
    .sort((a, b) => a.ipu_id - b.ipu_id || a.track - b.track || a.side - b.side);
})();
