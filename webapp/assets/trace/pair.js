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

  // Tells the sources how many cycles their runs take, which on a common axis is no distance.
  space.noteRuns = (sources, extents) => sources.forEach((source, side) => {
    source.runNames = undefined;
    source.lengths = new Map(extents[side].runs.map(
      ({name, own_cycles: own, start_cycle: start, end_cycle: end}) => [name, own ?? end - start],
    ));
  });

  // Of several runs, the number of the one that a range is.
  space.runWords = ({start, end}, runs) => {
    const number = runs.findIndex((run) => run.start_cycle === Math.round(start) && run.end_cycle === Math.round(end));
    return number < 0 || runs.length < 2 ? '' : 'run ' + space.count(number + 1) + ' of ' + space.count(runs.length)
      + '; 0 shows all';
  };

  space.runText = (source, name) => {
    const cycles = source.lengths && source.lengths.get(name);
    return cycles === undefined ? name : name + ' · ' + space.plural(cycles, 'cycle', 'cycles');
  };

  // What the numbers of the axis count; aligned by step, they are the cycles of no run.
  space.axisUnit = (align) => align === 'step' ? ' cycles, steps aligned' : ' cycles';

  // The visible range in words, with the lengths of the runs where the axis does not say them.
  space.rangeWords = ({start, end}, align, sources, hertz) => {
    const [from, to] = [Math.round(start), Math.round(end)];
    const place = ' from ' + space.count(from) + ' to ' + space.count(to);
    if (align !== 'step') {
      const time = space.seconds(to - from, hertz);
      return space.plural(to - from, 'cycle', 'cycles') + place + (time ? ' (' + time + ')' : '');
    }
    const runs = sources.map((source, side) => space.count([...source.lengths.values()].reduce((a, b) => a + b, 0))
      + ' (' + space.SIDES[side] + ')');
    return 'Steps set beside each other,' + place + '; the runs take ' + runs.join(' and ') + ' cycles';
  };

  // Tracks of all sides; the rows of one track stand one above the other.
  space.tracksOf = (extents) => extents
    .flatMap(({tracks}, side) => tracks.map((track) => ({...track, side})))
    .sort((a, b) => a.ipu_id - b.ipu_id || a.track - b.track || a.side - b.side);
})();
