// The strip of the whole trace. Drag a handle or the range between them, or click elsewhere.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const HEIGHT = 34;
  // Most IPUs with a row of their own, and most rows: two pixels each.
  const ROWS = 16;
  space.OVERVIEW_ROWS = ROWS;

  function handle(label) {
    const element = document.createElement('div');
    element.className = 'trace-handle';
    element.tabIndex = 0;
    element.setAttribute('role', 'slider');
    element.setAttribute('aria-label', label);
    return element;
  }

  space.Overview = class {
    constructor(element, viewer) {
      this.viewer = viewer;
      this.element = element;
      this.canvas = document.createElement('canvas');
      this.left = document.createElement('div');
      this.right = document.createElement('div');
      this.left.className = this.right.className = 'trace-outside';
      this.handles = [handle('Start of the visible range'), handle('End of the visible range')];
      element.append(this.canvas, this.left, this.right, ...this.handles);
      this.data = null;
      this.lanes = [];
      element.addEventListener('pointerdown', (event) => this.begin(event));
      element.addEventListener('pointermove', (event) => this.move(event));
      for (const name of ['pointerup', 'pointercancel']) {
        element.addEventListener(name, () => { this.drag = null; });
      }
      element.addEventListener('dblclick', () => viewer.showAll());
      this.handles.forEach((one, side) => one.addEventListener('keydown', (event) => {
        const sign = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (!sign) return;
        event.preventDefault();
        event.stopPropagation();
        const {start, end} = viewer.range;
        const by = sign * (end - start) / 20;
        viewer.moveTo(start + (side === 0 ? by : 0), end + (side === 1 ? by : 0));
      }));
    }

    take(data) {
      this.data = data;
      // A row for every track of every IPU, as far as there is room.
      this.lanes = [...data.groups.values()]
        .map((group) => group.lanes.find((lane) => lane.level === 0))
        .filter((lane) => lane !== undefined).slice(0, ROWS);
      this.painted = null;
    }

    begin(event) {
      const {extent, range} = this.viewer;
      if (!extent) return;
      this.element.setPointerCapture(event.pointerId);
      const cycle = this.cycleAt(event);
      const side = this.handles.indexOf(event.target);
      if (side < 0 && (cycle < range.start || cycle > range.end)) {
        const half = (range.end - range.start) / 2;
        this.viewer.moveTo(cycle - half, cycle + half);
      }
      this.drag = {side, cycle, ...this.viewer.range};
      event.preventDefault();
    }

    move(event) {
      if (!this.drag) return;
      const {side, cycle, start, end} = this.drag;
      const by = this.cycleAt(event) - cycle;
      if (side === 0) this.viewer.moveTo(Math.min(start + by, end - 1), end);
      else if (side === 1) this.viewer.moveTo(start, Math.max(end + by, start + 1));
      else this.viewer.moveTo(start + by, end + by);
    }

    cycleAt(event) {
      const box = this.element.getBoundingClientRect();
      const {extent} = this.viewer;
      return extent.start + (event.clientX - box.left) / box.width * (extent.end - extent.start);
    }

    paint(colours, ratio) {
      const {extent, range} = this.viewer;
      const width = this.element.clientWidth;
      if (!width || !extent) return;
      const key = [width, ratio, colours.surface].join();
      if (this.painted !== key) {
        this.painted = key;
        const context = space.prepare(this.canvas, width, HEIGHT, ratio);
        const room = (HEIGHT - 2) / Math.max(1, this.lanes.length);
        this.lanes.forEach((lane, row) => {
          context.font = colours.font;
          const scene = {
            start: extent.start, end: extent.end, colours, ratio, matches: null,
            source: {label: () => ''}, kinds: this.viewer.kinds,
          };
          const box = {x: 0, y: 2 + row * room, width, height: room + (room < 12 ? 1 : 0)};
          space.paintLane(context, this.data, lane, box, scene);
        });
      }
      const whole = extent.end - extent.start;
      const from = (range.start - extent.start) / whole * width;
      const to = (range.end - extent.start) / whole * width;
      this.left.style.width = Math.max(0, from) + 'px';
      this.right.style.width = Math.max(0, width - to) + 'px';
      this.handles[0].style.left = Math.max(0, Math.min(from, width)) + 'px';
      this.handles[1].style.left = Math.max(0, Math.min(Math.max(to, from + 3), width)) + 'px';
      [range.start, range.end].forEach((cycle, side) => {
        this.handles[side].setAttribute('aria-valuenow', String(Math.round(cycle)));
        this.handles[side].setAttribute('aria-valuemin', String(extent.start));
        this.handles[side].setAttribute('aria-valuemax', String(extent.end));
        this.handles[side].setAttribute('aria-valuetext', 'cycle ' + space.count(cycle));
      });
    }
  };
})();
