// The share of kinds in the cycles of every pixel: computed once an answer, drawn as one bitmap a row.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const GROUP = 9; // kinds from here on are no kinds of steps
  const DOMINANT_BELOW = 14; // pixels; a stack that is lower is noise
  space.KINDS = GROUP;

  /** Cycles of every kind of step in every pixel of an answer: `pixels` rows of `KINDS` values. */
  space.shareColumns = (lanes, pixels, perPixel) => {
    const columns = new Float32Array(pixels * GROUP);
    const add = (kind, from, to) => {
      const first = Math.max(0, Math.floor(from / perPixel));
      const last = Math.min(pixels - 1, Math.ceil(to / perPixel) - 1);
      for (let pixel = first; pixel <= last; pixel += 1) {
        const inside = Math.min(to, (pixel + 1) * perPixel) - Math.max(from, pixel * perPixel);
        if (inside > 0) columns[pixel * GROUP + kind] += inside;
      }
    };
    for (const lane of lanes) {
      if (lane.level === -1) continue;
      for (let i = 0; i < lane.n; i += 1) {
        const from = lane.start[i];
        const duration = lane.duration[i];
        const mix = lane.mix[i];
        if (mix < 0) {
          if (lane.kind[i] < GROUP) add(lane.kind[i], from, from + duration);
          continue;
        }
        // Several slices, all in about a pixel: their cycles lie where the bar begins. On a common axis of two
        // reports a gap may lie between them, which is no work of theirs.
        const worked = Math.min(duration, 2 * perPixel);
        let at = from;
        for (let kind = 0; kind < GROUP; kind += 1) {
          const part = worked * lane.share[mix + kind] / 255;
          if (part > 0) add(kind, at, at + part);
          at += part;
        }
      }
    }
    // Bars of several slices on several levels may overlap: a pixel has no more cycles than it is long.
    for (let at = 0; at < columns.length; at += GROUP) {
      let all = 0;
      for (let kind = 0; kind < GROUP; kind += 1) all += columns[at + kind];
      if (all <= perPixel) continue;
      for (let kind = 0; kind < GROUP; kind += 1) columns[at + kind] *= perPixel / all;
    }
    return columns;
  };

  /** Cycles by kind between two places of an answer, counted from its start in pixels. */
  space.columnSums = (columns, from, to) => {
    const sums = new Float64Array(GROUP);
    const pixels = columns.length / GROUP;
    const first = Math.max(0, Math.floor(from));
    const stop = Math.min(pixels, Math.ceil(to));
    for (let pixel = first; pixel < stop; pixel += 1) {
      const part = Math.min(to, pixel + 1) - Math.max(from, pixel);
      for (let kind = 0; kind < GROUP; kind += 1) sums[kind] += part * columns[pixel * GROUP + kind];
    }
    return sums;
  };

  /** Rectangles of a bitmap by kind, each x, y, width and height in whole pixels of the bitmap. */
  space.shareRectangles = (columns, perPixel, height, hidden) => {
    const rectangles = Array.from({length: GROUP}, () => []);
    const pixels = columns.length / GROUP;
    for (let pixel = 0; pixel < pixels; pixel += 1) {
      const at = pixel * GROUP;
      if (height < DOMINANT_BELOW) {
        let best = -1;
        for (let kind = 0; kind < GROUP; kind += 1) {
          if (columns[at + kind] > 0 && (best < 0 || columns[at + kind] > columns[at + best])) best = kind;
        }
        if (best < 0 || hidden & 1 << best) continue;
        const list = rectangles[best];
        const last = list[list.length - 1];
        if (last && last[0] + last[2] === pixel) last[2] += 1;
        else list.push([pixel, 0, 1, height]);
        continue;
      }
      let below = 0;
      for (let kind = 0; kind < GROUP; kind += 1) {
        const cycles = columns[at + kind];
        if (!(cycles > 0)) continue;
        const y1 = Math.round(height * (1 - below / perPixel));
        below = Math.min(perPixel, below + cycles);
        const y0 = Math.round(height * (1 - below / perPixel));
        if (y1 > y0 && !(hidden & 1 << kind)) rectangles[kind].push([pixel, y0, 1, y1 - y0]);
      }
    }
    return rectangles;
  };

  /** The same columns for pixels of `cell` cycles in place of `perPixel`. */
  space.resampled = (columns, perPixel, cell, pixels) => {
    const step = cell / perPixel;
    const found = new Float32Array(pixels * GROUP);
    const last = columns.length / GROUP;
    for (let pixel = 0; pixel < pixels; pixel += 1) {
      const from = pixel * step;
      const to = Math.min(last, from + step);
      for (let source = Math.floor(from); source < to; source += 1) {
        const part = Math.min(to, source + 1) - Math.max(from, source);
        for (let kind = 0; kind < GROUP; kind += 1) found[pixel * GROUP + kind] += part * columns[source * GROUP + kind];
      }
    }
    return found;
  };

  /** Draws the shares of an answer in a box; the bitmap is kept with the answer. */
  space.paintShares = (context, data, box, scene) => {
    const height = Math.max(1, Math.round(box.height * scene.ratio));
    const {cell, isMoving, hidden, colours} = scene;
    data.bitmap = space.bitmapOf(data.bitmap, data, {height, key: [hidden, colours], cell, isMoving}, (inside, pixels) => {
      const columns = space.resampled(data.columns, data.perPixel, cell, pixels);
      space.shareRectangles(columns, cell, height, hidden).forEach((list, kind) => {
        inside.fillStyle = space.fillOf(inside, kind, {colours, ratio: 1});
        for (const [x, y, width, tall] of list) inside.fillRect(x, y, width, tall);
      });
    });
    space.stretch(context, data.bitmap, data, box, scene);
  };
})();
