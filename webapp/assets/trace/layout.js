// Heights of the rows: by the report and the window, never by the visible range, so that nothing jumps.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const RUN = 20;
  const STEP = [18, 32];
  const ACTIVITY = [30, 240];
  const STRIP = [6, 26];
  const GAP = 10;
  const DENSE = 50; // executions a pixel, from which one run is shown in place of all
  const NAMES = 32;
  const DELTA = 26;
  const MOST_NAMED = 4; // groups with the names of their longest steps
  const STEPS_SHARE = 0.55; // of the free room; activity takes the rest
  // More groups than this are strips, all of them in the window.
  space.MOST_GROUPS = 8;
  space.GAP = GAP;

  const within = (/** @type {number[]} */ [low, high], size) => Math.max(low, Math.min(high, Math.floor(size)));

  /**
   * The height of a row of every type, for the rows of some groups in some room.
   *
   * A group is `open` (a run, activity, a row a level), `closed` (a run and one row) or a `strip`.
   */
  space.rowHeights = (groups, room) => {
    const strips = groups.filter((group) => group.form === 'strip').length;
    const others = groups.length - strips;
    const active = groups.filter((group) => group.hasActivity).length;
    const steps = groups.reduce((sum, {form, levels, tiles}) => sum + tiles
      + (form === 'open' ? levels : form === 'closed' ? 1 : 0), 0);
    const deltas = groups.filter((group) => group.hasDelta).length;
    const all = room - others * (RUN + GAP) - (strips && others ? GAP : 0) - deltas * DELTA;
    const least = steps * STEP[0] + active * ACTIVITY[0];
    // Names have a row where it takes no other's room.
    const names = active && active <= MOST_NAMED && all - least >= active * NAMES ? NAMES : 0;
    const left = all - active * names;
    const strip = strips ? within(STRIP, (left - least) / strips) : 0;
    const free = left - strips * strip;
    const step = within(STEP, steps ? STEPS_SHARE * free / steps : STEP[1]);
    const activity = active ? within(ACTIVITY, (free - steps * step) / active) : 0;
    return {run: RUN, names, delta: DELTA, step, activity, strip};
  };

  /**
   * What a trace opens on: all of it, or of runs that would be solid bands the one of median length, the first of
   * several; from the report's extent and the width of the picture.
   */
  space.openingRange = ({start_cycle: start, end_cycle: end, n_entries: n, runs, tracks}, width) => {
    const isDense = n / Math.max(1, tracks.length) > DENSE * width;
    if (runs.length < 2 || !isDense) return {start, end};
    const ordered = [...runs].sort((a, b) => a.end_cycle - a.start_cycle - b.end_cycle + b.start_cycle);
    const median = ordered[(ordered.length - 1) >> 1];
    const length = median.end_cycle - median.start_cycle;
    const run = runs.find((one) => one.end_cycle - one.start_cycle === length);
    return {start: run.start_cycle, end: run.end_cycle};
  };

  /** Rows of a group from top to bottom, as type, level, place and height. */
  space.rowsOf = (group, heights) => {
    if (group.form === 'strip') return [{type: 'strip', level: 0, top: 0, height: heights.strip}];
    const rows = [{type: 'runs', level: -1, height: heights.run}];
    if (group.hasActivity && heights.names) rows.push({type: 'names', level: undefined, height: heights.names});
    if (group.hasActivity) rows.push({type: 'share', level: undefined, height: heights.activity});
    const levels = group.form === 'open' ? group.levels : 1;
    for (let level = 0; level < levels; level += 1) rows.push({type: 'slices', level, height: heights.step});
    if (group.hasDelta) rows.push({type: 'delta', level: undefined, height: heights.delta});
    let top = 0;
    return rows.map((row) => {
      const placed = {...row, top};
      top += row.height;
      return placed;
    });
  };

  /** Gives the lanes of an answer the places of their rows; a lane without a row has no height. */
  space.placeLanes = (lanes, rows) => {
    for (const lane of lanes) {
      const row = rows.find(({level}) => level === lane.level);
      lane.top = row ? row.top : 0;
      lane.height = row ? row.height : 0;
    }
  };
})();
