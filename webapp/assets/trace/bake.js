// What a frame needs of a lane, prepared once an answer: its wide bars by kind, sums that count what is seen,
// and a bitmap of the bars that are too narrow to be drawn one by one.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const WIDE = 2; // pixels of an answer from which a slice is drawn by itself
  const GROUP = 9; // the kind of a call's bar
  const WAIT = 4; // the kind of a sync across IPUs, which is hatched
  const PERIOD = 6; // pixels from one line of a hatch to the next
  const THICK = 2;
  space.WAIT = WAIT;

  /** The wide bars of a lane, by kind, and running sums over all of its bars. */
  space.prepareLane = (lane, perPixel) => {
    if (lane.prepared) return lane.prepared;
    const {n} = lane;
    const slices = new Float64Array(n + 1);
    const cycles = new Float64Array(n + 1);
    const wideCycles = new Float64Array(n + 1);
    const wide = [];
    for (let i = 0; i < n; i += 1) {
      const isWide = lane.mix[i] < 0 && lane.duration[i] >= WIDE * perPixel;
      if (isWide) wide.push(i);
      slices[i + 1] = slices[i] + lane.count[i];
      cycles[i + 1] = cycles[i] + lane.duration[i];
      wideCycles[i + 1] = wideCycles[i] + (isWide ? lane.duration[i] : 0);
    }
    const byKind = new Map();
    for (const i of wide) {
      const list = byKind.get(lane.kind[i]);
      if (list) list.push(i);
      else byKind.set(lane.kind[i], [i]);
    }
    const packed = (list) => Int32Array.from(list);
    lane.prepared = {
      slices, cycles, wideCycles, wide: packed(wide),
      byKind: [...byKind].sort(([a], [b]) => a - b).map(([kind, list]) => ({kind, wide: packed(list)})),
    };
    return lane.prepared;
  };

  // The first place in a list of bars whose bar ends after a cycle.
  space.firstOf = (lane, list, cycle) => {
    let low = 0;
    let high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const i = list[middle];
      if (lane.start[i] + lane.duration[i] > cycle) high = middle;
      else low = middle + 1;
    }
    return low;
  };

  /** Numbers of bars and slices in the visible range, and the share of its cycles that lies in wide slices. */
  space.seenOf = (data, lane, {start, end}) => {
    const {slices, cycles, wideCycles} = space.prepareLane(lane, data.perPixel);
    const from = space.firstEndingAfter(lane, start - data.start);
    const stop = space.firstBeginningAt(lane, end - data.start);
    const all = cycles[stop] - cycles[from];
    return {
      bars: Math.max(0, stop - from), slices: stop > from ? slices[stop] - slices[from] : 0,
      resolved: all > 0 ? (wideCycles[stop] - wideCycles[from]) / all : 1,
    };
  };

  /** Which narrow bar each of some pixels of `cell` cycles shows: of several the longest; -1 for none. */
  space.narrowColumns = (lane, perPixel, cell, pixels) => {
    const owner = new Int32Array(pixels).fill(-1);
    for (let i = 0; i < lane.n; i += 1) {
      if (lane.mix[i] < 0 && lane.duration[i] >= WIDE * perPixel) continue;
      const first = Math.max(0, Math.min(pixels - 1, Math.round(lane.start[i] / cell)));
      const stop = Math.round((lane.start[i] + lane.duration[i]) / cell);
      for (let pixel = first; pixel < Math.min(pixels, Math.max(first + 1, stop)); pixel += 1) {
        if (owner[pixel] < 0 || lane.duration[owner[pixel]] < lane.duration[i]) owner[pixel] = i;
      }
    }
    return owner;
  };

  const HEX = /^#([\da-f]{2})([\da-f]{2})([\da-f]{2})$/i;
  /** A colour as canvases hold it, with an opacity of 0 to 255. */
  space.packedColour = (colour, opacity = 255) => {
    const [, ...parts] = HEX.exec(colour) || ['', '88', '88', '88'];
    const [red, green, blue] = parts.map((part) => parseInt(part, 16));
    return (opacity << 24 | blue << 16 | green << 8 | red) >>> 0;
  };

  /** Whether a pixel lies on a line of the hatch. */
  space.isHatched = (x, y) => (x + y) % PERIOD < THICK;

  /** The fill of a kind; waits are hatched, so that what works stands out. */
  space.fillOf = (context, kind, {colours, ratio}) => {
    if (kind !== WAIT) return colours.kinds[kind];
    colours.hatches = colours.hatches || new Map();
    if (!colours.hatches.has(ratio)) {
      const tile = document.createElement('canvas');
      tile.width = tile.height = PERIOD;
      const inside = tile.getContext('2d');
      for (let x = 0; x < PERIOD; x += 1) {
        for (let y = 0; y < PERIOD; y += 1) {
          inside.fillStyle = space.isHatched(x, y) ? colours.kinds[WAIT] : colours.surface;
          inside.fillRect(x, y, 1, 1);
        }
      }
      const pattern = context.createPattern(tile, 'repeat');
      pattern.setTransform(new DOMMatrix().scale(1 / ratio));
      colours.hatches.set(ratio, pattern);
    }
    return colours.hatches.get(ratio);
  };

  /** The pixels of the narrow bars of a lane, row by row from the top: 32 bits each, 0 where there is none. */
  space.bakedPixels = (lane, owner, height, {colours, hidden, matches, source}) => {
    const pixels = new Uint32Array(owner.length * height);
    const kinds = colours.kinds.map((colour) => space.packedColour(colour));
    const groups = colours.groups.map((colour) => space.packedColour(colour));
    const surface = space.packedColour(colours.surface);
    const put = (x, y, kind, i, opacity) => {
      const colour = kind === GROUP ? groups[lane.name[i] < 0 ? 0 : space.tintOf(source, lane.name[i])]
        : kind === WAIT && !space.isHatched(x, y) ? surface : kinds[kind];
      pixels[y * owner.length + x] = (colour & 0xffffff | opacity << 24) >>> 0;
    };
    for (let x = 0; x < owner.length; x += 1) {
      const i = owner[x];
      if (i < 0) continue;
      const id = lane.name[i];
      const opacity = !matches ? 255 : id < 0 ? 89 : matches[id] ? 255 : 56;
      const mix = lane.mix[i];
      if (mix < 0) {
        if (!(hidden & 1 << lane.kind[i])) for (let y = 0; y < height; y += 1) put(x, y, lane.kind[i], i, opacity);
        continue;
      }
      // Of several slices, every kind takes its share of the height, the first kind below.
      let below = 0;
      for (let kind = 0; kind < kinds.length; kind += 1) {
        const part = lane.share[mix + kind];
        if (!part) continue;
        const bottom = Math.round(height * (1 - below / 255));
        below = Math.min(255, below + part);
        const top = Math.round(height * (1 - below / 255));
        if (hidden & 1 << kind) continue;
        for (let y = top; y < bottom; y += 1) put(x, y, kind, i, opacity);
      }
    }
    return pixels;
  };

  /** Whether two resolutions are one: of a long trace, differences of cycles have no more digits. */
  space.isSameScale = (a, b) => Math.abs(a / b - 1) < 1e-6;

  /** How many pixels of the screen the range of an answer takes. */
  space.pixelsOf = (data, cell) => Math.max(1, Math.ceil((data.end - data.start) / cell - 1e-3));

  /**
   * A bitmap of an answer with a column a pixel of the screen, as it was made last if it still fits; made again
   * by `paint`, given a context and the number of columns, when `key` has changed or motion has stopped at
   * another scale. Mixing several columns in one would show colours that no kind has.
   */
  space.bitmapOf = (kept, data, {height, key, cell, isMoving}, paint) => {
    const isSame = kept && kept.height === height && kept.key.every((part, i) => part === key[i]);
    if (isSame && (isMoving || space.isSameScale(kept.cell, cell))) return kept;
    const pixels = space.pixelsOf(data, cell);
    const canvas = document.createElement('canvas');
    canvas.width = pixels;
    canvas.height = height;
    paint(canvas.getContext('2d'), pixels);
    return {canvas, height, key, cell};
  };

  // Draws the narrow bars of a lane.
  space.paintBaked = (context, data, lane, box, scene) => {
    const height = Math.max(1, Math.round(box.height * scene.ratio));
    const {cell, isMoving, matches, hidden, colours, source} = scene;
    const key = [matches, hidden, colours, source.tints];
    lane.baked = space.bitmapOf(lane.baked, data, {height, key, cell, isMoving}, (inside, pixels) => {
      const owner = space.narrowColumns(lane, data.perPixel, cell, pixels);
      const image = inside.createImageData(pixels, height);
      new Uint32Array(image.data.buffer).set(space.bakedPixels(lane, owner, height, scene));
      inside.putImageData(image, 0, 0);
    });
    space.stretch(context, lane.baked, data, box, scene);
  };

  /** Draws the part of a bitmap of an answer that lies in the visible range, column on pixel where scales agree. */
  space.stretch = (context, {canvas, cell}, data, box, scene) => {
    const from = Math.max(scene.start, data.start);
    const to = Math.min(scene.end, data.end);
    if (to <= from) return;
    const x = (cycle) => (cycle - scene.start) / (scene.end - scene.start) * box.width;
    context.imageSmoothingEnabled = false;
    if (space.isSameScale(cell, scene.cell)) {
      const shift = Math.round(x(data.start));
      const first = Math.max(0, -shift);
      const width = Math.min(canvas.width - first, box.width - Math.max(0, shift));
      if (width <= 0) return;
      context.drawImage(canvas, first, 0, width, canvas.height, box.x + first + shift, box.y, width, box.height);
      return;
    }
    const [low, high] = [(from - data.start) / cell, (to - data.start) / cell];
    context.drawImage(canvas, low, 0, high - low, canvas.height, box.x + x(from), box.y, x(to) - x(from), box.height);
  };
})();
