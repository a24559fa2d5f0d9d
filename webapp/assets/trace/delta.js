// Part of the viewer: of two reports whose steps stand beside each other, where the candidate takes longer.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});

  const LEAST = 0.005; // of a pixel; less is rounding

  /**
   * By how many cycles the candidate is busy longer in each of some pixels; negative where it is shorter. `start` is
   * where the first pixel begins; answers of both sides may begin elsewhere.
   */
  space.deltaColumns = (sides, {start, cell, pixels}) => {
    const found = new Float32Array(pixels);
    sides.forEach((data, side) => {
      if (!data || !data.columns) return;
      for (let pixel = 0; pixel < pixels; pixel += 1) {
        const place = (start + pixel * cell - data.start) / data.perPixel;
        const sums = space.columnSums(data.columns, place, place + cell / data.perPixel);
        let busy = 0;
        for (let kind = 0; kind < sums.length; kind += 1) busy += sums[kind];
        found[pixel] += side ? busy : -busy;
      }
    });
    return found;
  };

  (space.parts = space.parts || []).push({
    // Both sides of a row's track, the baseline first; null unless both are there and steps are aligned.
    bothSides(group) {
      if (this.sources.length < 2 || this.align !== 'step') return null;
      const sides = [0, 1].map((side) => this.groups.find(
        (one) => one.ipu === group.ipu && one.track === group.track && one.side === side && one.tile === undefined,
      ));
      const data = sides.map((one) => one && this.best(one));
      return data.every((one) => one && one.columns) ? /** @type {TraceData[]} */ (data) : null;
    },

    deltaOf(group) {
      const data = this.bothSides(group);
      if (!data) return null;
      const {range: {start, end}, cyclesPerPixel: cell} = this;
      const pixels = Math.max(1, Math.round((end - start) / cell));
      const kept = this.deltas.get(group.key);
      const key = [start, cell, pixels];
      if (kept && kept.data.every((one, i) => one === data[i]) && kept.key.every((part, i) => part === key[i])) return kept.columns;
      const columns = space.deltaColumns(data, {start, cell, pixels});
      this.deltas.set(group.key, {key, data, columns});
      return columns;
    },

    paintDelta(context, group, row, y, scene) {
      const columns = this.deltaOf(group);
      if (!columns) return;
      const half = Math.floor((row.height - 2) / 2);
      const middle = Math.round(y + half);
      for (const [sign, colour] of /** @type {[number, string][]} */ ([[1, scene.colours.more], [-1, scene.colours.less]])) {
        context.fillStyle = colour;
        let from = -1;
        let high = 0;
        for (let pixel = 0; pixel <= columns.length; pixel += 1) {
          const part = pixel < columns.length ? sign * columns[pixel] / scene.cell : 0;
          const tall = part > LEAST ? Math.max(1, Math.round(half * Math.min(1, part))) : 0;
          if (tall === high) continue;
          if (high) context.fillRect(from, sign > 0 ? middle - high : middle + 1, pixel - from, high);
          from = pixel;
          high = tall;
        }
      }
      context.fillStyle = scene.colours.line;
      context.fillRect(0, middle, this.width, 1);
    },

    // What the candidate takes more in the pixel under a place, in words; null elsewhere.
    deltaAt(at) {
      const group = at && this.extent && at.y >= space.RULER ? this.groupAt(at.y) : null;
      const row = group && group.rows.find(({type}) => type === 'delta');
      const inside = group ? at.y - this.screenTop(group) : 0;
      if (!row || inside < row.top || inside >= row.top + row.height) return null;
      const columns = this.deltaOf(group);
      const cycles = columns ? Math.round(columns[Math.min(columns.length - 1, Math.max(0, Math.floor(at.x)))]) : 0;
      return cycles > 0 ? 'the candidate takes ' + space.plural(cycles, 'cycle', 'cycles') + ' more here'
        : cycles < 0 ? 'the candidate takes ' + space.plural(-cycles, 'cycle', 'cycles') + ' less here' : 'both take as long here';
    },
  });
})();
