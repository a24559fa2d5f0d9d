// The strip of the whole trace: a row for every track of every IPU, as far as there is room.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const HEIGHT = 34;
  // Most IPUs with a row of their own, and most rows: two pixels each.
  const ROWS = 16;
  space.OVERVIEW_ROWS = ROWS;

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
