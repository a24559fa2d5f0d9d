// The strip of a whole axis. Drag a handle or the range between them, or click elsewhere.
(function () {
  'use strict';
  const space = window.tilescopeAxis = window.tilescopeAxis || /** @type {AxisSpace} */ ({});

  const QUIET_MS = 120;

  function handle(label) {
    const element = document.createElement('div');
    element.className = 'axis-handle';
    element.tabIndex = 0;
    element.setAttribute('role', 'slider');
    element.setAttribute('aria-label', label);
    return element;
  }

  // `paintWhole` draws the data once; `name` says what a position is, such as "cycle 1,200".
  space.Strip = class {
    constructor(element, view, {height, paintWhole, name}) {
      this.element = element;
      this.view = view;
      this.height = height;
      this.paintWhole = paintWhole;
      this.name = name;
      element.classList.add('axis-strip');
      element.style.height = height + 'px';
      this.canvas = document.createElement('canvas');
      this.left = document.createElement('div');
      this.right = document.createElement('div');
      this.left.className = this.right.className = 'axis-outside';
      this.handles = [handle('Start of the visible range'), handle('End of the visible range')];
      element.append(this.canvas, this.left, this.right, ...this.handles);
      element.addEventListener('pointerdown', (event) => this.begin(event));
      element.addEventListener('pointermove', (event) => this.move(event));
      for (const event of ['pointerup', 'pointercancel']) {
        element.addEventListener(event, () => { this.drag = null; });
      }
      element.addEventListener('dblclick', () => view.showAll());
      this.handles.forEach((one, side) => one.addEventListener('keydown', (event) => {
        const sign = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (!sign) return;
        event.preventDefault();
        event.stopPropagation();
        const {start, end} = view.range;
        const by = sign * (end - start) / 20;
        view.moveTo(start + (side === 0 ? by : 0), end + (side === 1 ? by : 0));
      }));
    }

    // The data changed: it is drawn again with the next frame.
    forget() {
      this.painted = null;
    }

    begin(event) {
      const {extent, range} = this.view;
      if (!extent) return;
      this.element.setPointerCapture(event.pointerId);
      const at = this.positionAt(event);
      const side = this.handles.indexOf(event.target);
      if (side < 0 && (at < range.start || at > range.end)) {
        const half = (range.end - range.start) / 2;
        this.view.moveTo(at - half, at + half);
      }
      this.drag = {side, at, ...this.view.range};
      event.preventDefault();
    }

    move(event) {
      if (!this.drag) return;
      const {side, at, start, end} = this.drag;
      const by = this.positionAt(event) - at;
      if (side === 0) this.view.moveTo(Math.min(start + by, end - 1), end);
      else if (side === 1) this.view.moveTo(start, Math.max(end + by, start + 1));
      else this.view.moveTo(start + by, end + by);
    }

    positionAt(event) {
      const box = this.element.getBoundingClientRect();
      const {extent} = this.view;
      return extent.start + (event.clientX - box.left) / box.width * (extent.end - extent.start);
    }

    paint(colours, ratio) {
      const {extent, range} = this.view;
      const width = this.element.clientWidth;
      if (!width || !extent) return;
      const key = [width, ratio, colours.surface].join();
      if (this.painted !== key) {
        this.painted = key;
        const context = space.prepare(this.canvas, width, this.height, ratio);
        context.font = colours.font;
        this.paintWhole(context, width, this.height, colours, ratio);
      }
      const whole = extent.end - extent.start;
      const from = (range.start - extent.start) / whole * width;
      const to = (range.end - extent.start) / whole * width;
      this.left.style.width = Math.max(0, from) + 'px';
      this.right.style.width = Math.max(0, width - to) + 'px';
      this.handles[0].style.left = Math.max(0, Math.min(from, width)) + 'px';
      this.handles[1].style.left = Math.max(0, Math.min(Math.max(to, from + 3), width)) + 'px';
      // Readers of the screen are told once motion has stopped.
      clearTimeout(this.telling);
      this.telling = setTimeout(() => this.tell(), QUIET_MS);
    }

    tell() {
      const {extent, range} = this.view;
      if (!extent) return;
      [range.start, range.end].forEach((position, side) => {
        this.handles[side].setAttribute('aria-valuenow', String(Math.round(position)));
        this.handles[side].setAttribute('aria-valuemin', String(Math.round(extent.start)));
        this.handles[side].setAttribute('aria-valuemax', String(Math.round(extent.end)));
        this.handles[side].setAttribute('aria-valuetext', this.name(position));
      });
    }
  };

  // Sizes a canvas for the screen's pixels and returns its context in page pixels.
  space.prepare = (canvas, width, height, ratio) => {
    const w = Math.max(1, Math.round(width * ratio));
    const h = Math.max(1, Math.round(height * ratio));
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
    }
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  };
})();
