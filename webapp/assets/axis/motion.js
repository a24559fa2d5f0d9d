// The visible range of an axis, its motion, and where positions lie on the screen. A component has
// these as methods; it brings `extent`, `range`, `width`, `draw`, `hover`, `request` and `changed`.
(function () {
  'use strict';
  const space = window.tilescopeAxis = window.tilescopeAxis || /** @type {AxisSpace} */ ({});
  const SHORTEST = 8;
  const MOVE_MS = 130;

  space.motion = /** @type {AxisMotion & ThisType<AxisView>} */ ({
    bounded(start, end) {
      const {extent} = this;
      const whole = extent.end - extent.start;
      const span = Math.max(Math.min(this.shortest || SHORTEST, whole), Math.min(end - start, whole));
      const middle = (start + end) / 2;
      let low = end - start < span ? middle - span / 2 : start;
      low = Math.max(extent.start, Math.min(low, extent.end - span));
      return {start: low, end: low + span};
    },

    moveTo(start, end, isSmooth) {
      const goal = this.bounded(start, end);
      const still = !isSmooth || matchMedia('(prefers-reduced-motion: reduce)').matches;
      this.goal = still ? null : {...goal, from: {...this.range}, since: performance.now()};
      if (still) this.range = goal;
      this.hover(null);
      this.draw();
      if (still) this.request();
      this.changed();
    },

    advance() {
      if (!this.goal) return;
      const {from, since, start, end} = this.goal;
      const part = Math.min(1, (performance.now() - since) / MOVE_MS);
      const eased = 1 - (1 - part) ** 3;
      this.range = {
        start: from.start + (start - from.start) * eased,
        end: from.end + (end - from.end) * eased,
      };
      if (part >= 1) { this.range = {start, end}; this.goal = null; }
      else this.draw();
      this.request();
    },

    // The range that a motion leads to, so that keys pressed in quick succession add up.
    target() {
      return this.goal ? {start: this.goal.start, end: this.goal.end} : this.range;
    },

    zoomAt(factor, part, isSmooth) {
      const {start, end} = this.target();
      const at = start + (end - start) * part;
      this.moveTo(at - (at - start) * factor, at + (end - at) * factor, isSmooth);
    },

    pan(part, isSmooth) {
      const {start, end} = this.target();
      const by = (end - start) * part;
      const low = Math.max(this.extent.start, Math.min(start + by, this.extent.end - (end - start)));
      this.moveTo(low, low + end - start, isSmooth);
    },

    showAll() {
      this.moveTo(this.extent.start, this.extent.end, true);
    },

    positionAt(x) {
      return this.range.start + x / this.width * (this.range.end - this.range.start);
    },

    pixelOf(position) {
      return (position - this.range.start) / (this.range.end - this.range.start) * this.width;
    },

    // Where on the screen keys zoom: at the pointer, as a part of the width.
    pointer() {
      return this.last ? Math.max(0, Math.min(1, this.last.x / this.width)) : 0.5;
    },
  });
})();
