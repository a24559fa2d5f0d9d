// The strip of the whole trace: a row for every track of every IPU, as far as there is room.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const HEIGHT = 34;
  // Most IPUs with a row of their own, and most rows: two pixels each.
  const ROWS = 16;
  space.OVERVIEW_ROWS = ROWS;

  // Of a trace that opens on one run, a line says how long the others are, against the longest.
  space.paintRuns = (context, {extent, opening, runs = []}, {y, width, height}, colours) => {
    const lengths = runs.map((run) => run.end_cycle - run.start_cycle);
    const [least, most] = [Math.min(...lengths), Math.max(...lengths)];
    if (runs.length < 2 || opening.end - opening.start >= extent.end - extent.start || least === most) return;
    const x = (cycle) => (cycle - extent.start) / (extent.end - extent.start) * width;
    context.fillStyle = colours.ink;
    runs.forEach((run, i) => {
      const from = Math.floor(x(run.start_cycle));
      const to = Math.max(from + 1, Math.floor(x(run.end_cycle)));
      context.fillRect(from, Math.round(y + (height - 2) * (1 - lengths[i] / most)), to - from, 2);
    });
  };

  space.Overview = class extends window.tilescopeAxis.Strip {
    constructor(element, viewer) {
      super(element, viewer, {
        height: HEIGHT,
        name: (cycle) => 'cycle ' + space.count(cycle),
        paintWhole: (context, width, height, colours, ratio) => {
          const {extent, kinds} = viewer;
          const room = (height - 2) / Math.max(1, this.lanes.length);
          this.lanes.forEach((lane, row) => {
            const scene = {
              start: extent.start, end: extent.end, colours, ratio, matches: null,
              source: {label: () => '', labels: [], parents: []}, kinds, hidden: viewer.hidden, unit: '',
              cell: (extent.end - extent.start) / width, isMoving: false,
            };
            const box = {x: 0, y: 2 + row * room, width, height: room + (room < 12 ? 1 : 0)};
            space.paintLane(context, this.data, lane, box, scene);
          });
          space.paintRuns(context, viewer, {x: 0, y: 2, width, height: height - 2}, colours);
        },
      });
      this.data = null;
      this.lanes = [];
    }

    take(data) {
      this.data = data;
      this.lanes = [...data.groups.values()]
        .map((group) => group.lanes.find((lane) => lane.level === 0))
        .filter((lane) => lane !== undefined).slice(0, ROWS);
      this.forget();
    }
  };
})();
