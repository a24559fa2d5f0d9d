// Levels whose slices are too narrow to be drawn: one picture of the longest step of every pixel, in their place.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const GROUP = 9; // kinds from here on are no kinds of steps
  // Below the first share of its time in wide slices a level is not resolved, from the second on it is again:
  // between the two it stays as it is, so that rows do not flicker in motion.
  const [LEAVE, RETURN] = [0.3, 0.4];
  const MOST_NAMES = 12;
  const LEVELS = 3; // of a name in a label
  const LINE = 15; // pixels of a line of text
  const NOTE_FROM = 40; // pixels of a box with a note
  const NAMED_FROM = 36; // pixels of a bar that has a name of its own
  const ROOM = 170; // pixels of a name
  const APART = 8; // pixels between two names
  const NAMES_MS = 150;
  const CLICKED = 200; // pixels that a clicked step is wide

  /**
   * The first of a group's levels that is not resolved; the number of levels if all are. `before` is what it was.
   */
  space.unresolvedLevel = (shares, before) => {
    const found = shares.findIndex((share, level) => share < (before <= level ? RETURN : LEAVE));
    return found < 0 ? shares.length : found;
  };

  /** Levels above every name. */
  space.depthsOf = (source) => {
    if (!source.depths || source.depths.length !== source.labels.length) {
      source.depths = new Uint8Array(source.labels.length);
      source.labels.forEach((_, id) => {
        const parent = source.parents[id];
        source.depths[id] = parent < 0 ? 0 : Math.min(255, source.depths[parent] + 1);
      });
    }
    return source.depths;
  };

  /**
   * The longest step of each of some pixels of `cell` cycles: its name (-1 for none), its cycles, its kind and its bar.
   * Steps above a level are left out, since their rows are drawn.
   */
  space.longestColumns = (lane, {level, depths, cell, pixels, hidden}) => {
    const cycles = new Float32Array(pixels);
    const name = new Int32Array(pixels).fill(-1);
    const bar = new Int32Array(pixels).fill(-1);
    for (let i = 0; i < lane.n; i += 1) {
      const mix = lane.mix[i];
      const kind = lane.kind[i];
      if (kind >= GROUP || hidden & 1 << kind) continue;
      const id = mix < 0 ? lane.name[i] : lane.longestName[mix / lane.nKinds];
      if (id < 0 || depths[id] < level) continue;
      const length = mix < 0 ? lane.duration[i] : lane.longestCycles[mix / lane.nKinds];
      const first = Math.max(0, Math.floor(lane.start[i] / cell));
      const stop = Math.min(pixels, Math.max(first + 1, mix < 0 ? Math.ceil((lane.start[i] + lane.duration[i]) / cell) : 0));
      for (let pixel = first; pixel < stop; pixel += 1) {
        if (length <= cycles[pixel]) continue;
        cycles[pixel] = length;
        name[pixel] = id;
        bar[pixel] = i;
      }
    }
    return {cycles, name, bar};
  };

  /** The last levels of a path, as many as there is room for. */
  space.lastLevels = (path, room, measure) => {
    const levels = path.split('/');
    for (let n = Math.min(LEVELS, levels.length); n > 1; n -= 1) {
      const text = levels.slice(-n).join('/');
      if (measure(text) <= room) return text;
    }
    return space.labelText(levels[levels.length - 1], '', space.ALONE, room, measure);
  };

  /**
   * Which of some columns are named, the longest first: every name once, at most twelve, on the first of some lines
   * where its text has room. Steps of `most` cycles or more have names of their own.
   */
  space.namedColumns = (columns, from, to, {width, lines, most, textOf, measure}) => {
    const best = new Map();
    for (let pixel = Math.max(0, from); pixel < Math.min(to, columns.name.length); pixel += 1) {
      const id = columns.name[pixel];
      if (id < 0 || columns.cycles[pixel] >= most) continue;
      const known = best.get(id);
      if (known === undefined || columns.cycles[pixel] > columns.cycles[known]) best.set(id, pixel);
    }
    const placed = [];
    const texts = new Set();
    const longest = [...best.values()].sort((a, b) => columns.cycles[b] - columns.cycles[a]).slice(0, 8 * MOST_NAMES);
    for (const pixel of longest) {
      if (placed.length === MOST_NAMES) break;
      const text = textOf(columns.name[pixel]);
      const room = measure(text);
      // The same step of the next layer tells nothing more.
      if (!text || room > width || texts.has(text)) continue;
      const x = Math.max(0, Math.min(width - room, pixel - from - 3));
      const at = pixel - from;
      // The tick of a name goes down through the lines below it.
      const isApart = (one, line) => line === one.line ? x >= one.x + one.room + APART || one.x >= x + room + APART
        : line < one.line ? at < one.x - 2 || at > one.x + one.room + 2
          : one.pixel - from < x - 2 || one.pixel - from > x + room + 2;
      const isFree = (line) => placed.every((one) => isApart(one, line));
      const line = Array.from({length: lines}, (_, i) => i).find(isFree);
      if (line === undefined) continue;
      texts.add(text);
      placed.push({pixel, x, room, text, line});
    }
    return placed;
  };

  (space.parts = space.parts || []).push({
    // The box of the levels of a group that are not resolved, in its place; null where all are.
    boxOf(group) {
      const data = group.form === 'open' && group.tile === undefined ? this.best(group) : null;
      if (!data || !data.steps || data.how === 'flat' || !this.source.labels.length) return null;
      const levels = group.rows.filter(({type, level}) => type === 'slices' && level >= 0);
      const shares = levels.map(({level}) => {
        const lane = data.lanes.find((one) => one.level === level);
        return lane && lane.n ? space.seenOf(data, lane, this.range).resolved : 1;
      });
      // A level without a slice in the range says nothing; the ones below it decide.
      this.unresolved = this.unresolved || new Map();
      const before = this.unresolved.get(group.key);
      const level = space.unresolvedLevel(shares, before === undefined ? levels.length : before);
      this.unresolved.set(group.key, level);
      if (level >= levels.length) return null;
      const last = levels[levels.length - 1];
      const {top} = levels[level];
      return {level, top, height: last.top + last.height - top, data, group};
    },

    columnsOf({level, data, group}) {
      const {cyclesPerPixel: cell, hidden} = this;
      const source = this.sources[group.side];
      const key = [hidden, source.labels.length].join();
      data.longest = data.longest || new Map();
      const kept = data.longest.get(level);
      if (kept && kept.key === key && space.isSameScale(kept.cell, cell)) return kept;
      const pixels = space.pixelsOf(data, cell);
      const columns = space.longestColumns(data.steps, {level, depths: space.depthsOf(source), cell, pixels, hidden});
      const made = {key, cell, columns, most: columns.cycles.reduce((a, b) => Math.max(a, b), 0)};
      data.longest.set(level, made);
      return made;
    },

    // Levels that are not resolved: the longest step of every pixel, against the longest of the answer.
    paintLongest(context, box, y, scene) {
      const {level, data, height, group} = box;
      const {width} = this;
      const {columns, most} = this.columnsOf(box);
      if (!(most > 0)) return;
      const text = height >= NOTE_FROM ? LINE : 0;
      const tall = Math.max(1, Math.round((height - text - 3) * scene.ratio));
      const key = [level, scene.hidden, scene.colours];
      data.longestBitmap = space.bitmapOf(data.longestBitmap, data, {height: tall, key, cell: scene.cell, isMoving: scene.isMoving},
        (inside) => columns.cycles.forEach((cycles, pixel) => {
          if (!cycles) return;
          const high = Math.max(1, Math.round(tall * cycles / most));
          inside.fillStyle = space.fillOf(inside, data.steps.kind[columns.bar[pixel]], {colours: scene.colours, ratio: 1});
          inside.fillRect(pixel, tall - high, 1, high);
        }));
      space.stretch(context, data.longestBitmap, data, {x: 0, y: y + text, width, height: tall / scene.ratio}, scene);
      if (!text) return;
      let slices = 0;
      for (const lane of data.lanes) if (lane.level >= level) slices += space.seenOf(data, lane, scene).slices;
      const levels = group.levels - level;
      context.textBaseline = 'middle';
      context.fillStyle = scene.colours.soft;
      context.fillText(space.plural(slices, 'slice', 'slices') + ' on ' + space.plural(levels, 'level', 'levels')
        + ', too narrow to be drawn: the longest step of every pixel', 3, y + LINE / 2 + 1);
    },

    // The longest steps that are too narrow for a name in their bars.
    namesOf(group) {
      const data = this.best(group);
      const source = this.sources[group.side];
      const {range: {start}, cyclesPerPixel: cell, width} = this;
      if (!data || !data.steps || !source.labels.length || !this.context) return null;
      const key = [width, this.hidden].join();
      const now = performance.now();
      const {named} = data;
      const kept = named && named.key === key && space.isSameScale(named.cell, cell) ? named : null;
      if (kept && kept.start !== start && now - kept.at < NAMES_MS) {
        // While the range moves, names move with it, and are chosen anew a few times a second.
        clearTimeout(this.namesLater);
        this.namesLater = setTimeout(() => this.draw(), NAMES_MS);
        return kept;
      }
      if (!kept || kept.start !== start) {
        const {columns} = this.columnsOf({level: 0, data, group, top: 0, height: 0});
        const first = Math.round((start - data.start) / cell);
        const measure = (part) => space.textWidth(this.context, part);
        const chosen = space.namedColumns(columns, first, first + Math.round(width), {
          width, measure, lines: 2, most: NAMED_FROM * cell,
          textOf: (id) => space.lastLevels(source.path(id), ROOM, measure),
        });
        data.named = {key, cell, start, at: now, named: chosen, first, columns};
      }
      return data.named;
    },

    paintNames(context, group, row, y, scene) {
      this.context = context;
      const found = this.namesOf(group);
      if (!found) return;
      context.textBaseline = 'middle';
      const shift = found.first - Math.round((this.range.start - this.best(group).start) / this.cyclesPerPixel);
      for (const {pixel, x, text, line} of found.named) {
        const middle = y + line * LINE + LINE / 2 + 1;
        const at = pixel - found.first + shift;
        context.fillStyle = scene.colours.soft;
        context.fillRect(at, middle + 6, 1, y + row.height - middle - 6);
        context.fillStyle = scene.colours.ink;
        context.fillText(text, x + shift, middle);
      }
    },

    // The named step under a place on the canvas.
    nameAt(at) {
      const group = at && this.extent && at.y >= space.RULER ? this.groupAt(at.y) : null;
      const row = group && group.rows.find(({type}) => type === 'names');
      const found = row && this.namesOf(group);
      if (!found) return null;
      const inside = at.y - this.screenTop(group) - row.top;
      const one = found.named.find(({x, room, line}) => at.x >= x && at.x <= x + room
        && inside >= line * LINE && inside < (line + 1) * LINE);
      const data = this.best(group);
      return one ? {box: {level: 0, top: row.top, height: row.height, data, group}, pixel: one.pixel, columns: found.columns} : null;
    },

    // The box under a place on the canvas, with the longest step of the pixel there.
    longestAt(at) {
      const named = this.nameAt(at);
      if (named) return named;
      const group = at && this.extent && at.y >= space.RULER ? this.groupAt(at.y) : null;
      const box = group ? this.boxOf(group) : null;
      const inside = group ? at.y - this.screenTop(group) : 0;
      if (!box || inside < box.top || inside >= box.top + box.height) return null;
      const {columns} = this.columnsOf(box);
      const middle = Math.floor((this.positionAt(at.x) - box.data.start) / this.cyclesPerPixel);
      const near = [0, -1, 1, -2, 2].map((by) => middle + by).find((pixel) => columns.name[pixel] >= 0);
      if (near === undefined) return {box, pixel: -1, columns};
      return {box, pixel: near, columns};
    },

    hoverLongest({box, pixel, columns}, at) {
      if (pixel < 0) { this.tooltip.style.display = 'none'; return; }
      const {steps} = box.data;
      const cycles = columns.cycles[pixel];
      const kind = this.kinds[steps.kind[columns.bar[pixel]]];
      this.showTooltip(this.sources[box.group.side].path(columns.name[pixel]) || kind.label, this.colours.kinds[kind.number], [
        'the longest step of this pixel: ' + space.plural(cycles, 'cycle', 'cycles')
          + (this.hertz ? ' · ' + space.seconds(cycles, this.hertz) : ''),
        (steps.count[columns.bar[pixel]] > 1 ? 'one of ' + space.count(steps.count[columns.bar[pixel]]) + ' steps; ' : '') + 'click to zoom to it',
      ], at);
    },

    // Zooms to the longest step of a pixel and selects it. Bars of several steps are asked for again, more closely.
    async goToLongest({box, pixel, columns}) {
      if (pixel < 0) return;
      const {group, data} = box;
      const {source} = this;
      const wanted = columns.name[pixel];
      let [lane, i, from] = [data.steps, columns.bar[pixel], data.start];
      for (let turn = 0; turn < 6 && lane.mix[i] >= 0; turn += 1) {
        const start = Math.floor(from + lane.start[i]);
        const end = Math.ceil(from + lane.start[i] + lane.duration[i]);
        const answer = await this.sources[group.side].window(
          {start, end, width: Math.min(20000, Math.max(1, end - start)), view: 'flat', ipus: String(group.ipu)},
        );
        if (source !== this.source) return;
        const found = answer.groups.get(group.ipu + '.' + group.track);
        const next = found && found.lanes.find(({level}) => level === 0);
        if (!next) return;
        let best = -1;
        let most = -1;
        for (let one = 0; one < next.n; one += 1) {
          const mix = next.mix[one];
          const id = mix < 0 ? next.name[one] : next.longestName[mix / next.nKinds];
          const length = mix < 0 ? next.duration[one] : next.longestCycles[mix / next.nKinds];
          if (id === wanted && length > most) { most = length; best = one; }
        }
        if (best < 0) return;
        [lane, i, from] = [next, best, answer.start];
      }
      const start = from + lane.start[i];
      const end = start + lane.duration[i];
      const span = (end - start) * this.width / CLICKED;
      const level = space.depthsOf(this.sources[group.side])[wanted];
      this.state.at = [group.ipu, group.track, level, Math.floor(start), ...(group.side ? [group.side] : [])].join('.');
      this.state.mark = null;
      this.isChosen = true;
      this.moveTo((start + end - span) / 2, (start + end + span) / 2, true);
      this.loadSelected();
      this.changed('details');
    },
  });
})();
