// A map of the tiles as they lie on their IPUs, coloured by how much of something they hold.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const axis = window.tilescopeAxis;
  const bytes = (size) => /** @type {string} */ (window.tilescopeFormats.tilescopeBytes(size));
  const LEVELS = 9;
  const CHANGES = 4;
  const TITLE = 18;
  const GAP = 14;
  const SMALLEST = 4;
  const LARGEST = 24;

  space.unpackMap = (buffer) => {
    const {header, take} = space.header(buffer);
    const n = header.tiles_per_ipu;
    const values = take(Float64Array, n * header.n_ipus);
    const [row, column] = [take(Int32Array, n), take(Int32Array, n)];
    const tileAt = new Map();
    for (let tile = 0; tile < n; tile += 1) tileAt.set(row[tile] * header.n_columns + column[tile], tile);
    return {...header, values, row, column, tileAt};
  };

  // The layout in which tiles are largest: IPUs side by side and below each other.
  space.layMap = ({n_ipus: ipus, n_rows: rows, n_columns: columns}, width, height) => {
    let best = null;
    for (let across = 1; across <= ipus; across += 1) {
      const down = Math.ceil(ipus / across);
      const wide = (width - (across - 1) * GAP) / (across * columns);
      const tall = (height - down * (TITLE + GAP)) / (down * rows);
      const cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.min(wide, tall))));
      const isWide = across * columns * cell + (across - 1) * GAP > width;
      if (isWide && across > 1) break;
      if (!best || cell > best.cell || cell === best.cell && down < best.down) best = {across, down, cell};
    }
    return {...best, height: best.down * (TITLE + GAP + rows * best.cell)};
  };

  space.LEVELS = LEVELS;

  // The level of a value from 1 to `levels`, negative for less than nothing; 0 is nothing.
  space.levelOf = (value, highest, levels = LEVELS) =>
    Math.sign(value) * Math.min(levels, Math.ceil(Math.abs(value) / highest * levels - 1e-9)) || 0;

  space.signedBytes = (size) => (size > 0 ? '+' : size < 0 ? '−' : '±') + bytes(Math.abs(size));

  /** A colour between two, both as #rrggbb. */
  space.mixed = (from, to, part) => '#' + [1, 3, 5].map((at) => {
    const [low, high] = [from, to].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(low + (high - low) * part).toString(16).padStart(2, '0');
  }).join('');

  space.MapPlot = class MapPlot {
    constructor(root, options) {
      this.root = root;
      this.options = options;
      this.view = {};
      this.extent = null;
      this.cursor = null;
      const tools = axis.make('div', 'chart-tools', root);
      /** @type {[string, string, () => void][]} */
      const buttons = [
        ['PNG', 'PNG: save as a picture', () => space.savePicture(this, 'tile-map', {
          title: this.data.title + ' by tile', axes: 'Rows and columns of the floor plan; colour: bytes of a tile',
        })],
        ['CSV', 'CSV: save the drawn data', () => space.saveTable(this.table(), 'tile-map')],
      ];
      for (const [text, title, act] of buttons) {
        axis.tool(tools, text, title, () => { if (this.data) act(); });
      }
      this.scroller = axis.make('div', 'chart-map', root);
      this.box = axis.make('div', 'chart-box', this.scroller);
      this.box.tabIndex = 0;
      this.box.setAttribute('role', 'slider');
      this.box.setAttribute('aria-valuemin', '0');
      this.box.setAttribute('aria-valuenow', '0');
      this.box.setAttribute('aria-label', 'Map of the tiles. Arrow keys move a cursor, Enter selects.');
      this.canvas = axis.make('canvas', 'chart-canvas', this.box);
      this.tooltip = axis.make('div', 'chart-tooltip', root);
      this.message = axis.make('div', 'chart-message', root);
      this.legend = axis.make('div', 'chart-legend legend', root);
      this.note = axis.make('div', 'chart-note', root);
      this.box.addEventListener('pointermove', (event) => this.hover(this.tileOf(event), event));
      this.box.addEventListener('pointerleave', () => { this.tooltip.style.display = 'none'; });
      this.box.addEventListener('blur', () => { this.cursor = null; this.tooltip.style.display = 'none'; this.draw(); });
      this.box.addEventListener('click', (event) => {
        const tile = this.tileOf(event);
        if (tile !== null) this.options.pick({item: tile, side: 0, isMore: event.shiftKey});
      });
      new ResizeObserver(() => { this.draw(); this.request(); }).observe(this.scroller);
      new MutationObserver(() => { this.colours = null; this.draw(); }).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    isShown() {
      return this.box.offsetParent !== null;
    }

    get height() {
      return this.box.clientHeight;
    }

    show(view) {
      this.view = view;
      this.of = view.of === 'named' ? 'variable:' + (view.var || '') : view.of || 'total';
      const isOne = !view.with || view.shows === 'baseline' || view.shows === 'candidate';
      const report = view.with && view.shows === 'candidate' ? view.with : view.report;
      this.path = 'memory/' + encodeURIComponent(report) + '/map';
      this.query = isOne ? {of: this.of} : {of: this.of, with: view.with};
      const asked = JSON.stringify([this.path, this.query]);
      if (asked !== this.asked) this.failed = '';
      this.asked = asked;
      this.draw();
      this.request();
    }

    request() {
      return space.answer(this, async () => {
        if (this.of === 'variable:') throw new Error('Enter a name of variables above.');
        const answer = await space.ask(this.path, this.query);
        return space.unpackMap(await answer.arrayBuffer());
      });
    }

    say(text, isError) {
      this.message.textContent = text;
      this.message.classList.toggle('is-error', Boolean(isError));
      this.message.setAttribute('role', isError ? 'alert' : 'status');
    }

    take(data) {
      this.data = data;
      this.extent = {start: 0, end: data.values.length};
      this.box.setAttribute('aria-valuemax', String(data.values.length - 1));
      this.say('');
      this.root.dataset.drawn = data.title;
      this.draw();
    }

    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        if (!this.data || !this.isShown()) return;
        this.layout = space.layMap(this.data, this.scroller.clientWidth - 4, Math.max(260, window.innerHeight * 0.5));
        this.box.style.height = this.layout.height + 'px';
        this.paint(this.canvas, window.devicePixelRatio || 1);
        this.paintLegend();
      });
    }

    // Left and top of an IPU's tiles.
    originOf(ipu) {
      const {across, cell} = this.layout;
      const {n_columns: columns, n_rows: rows} = this.data;
      return [
        (ipu % across) * (columns * cell + GAP),
        Math.floor(ipu / across) * (rows * cell + TITLE + GAP) + TITLE,
      ];
    }

    paint(canvas, ratio) {
      this.colours = this.colours || space.readColours(this.root);
      const {colours, data, layout: {cell}} = this;
      const context = axis.prepare(canvas, this.box.clientWidth, this.height, ratio);
      context.font = colours.font;
      const room = cell > 6 ? cell - 1 : cell;
      const selected = space.ranges(this.view.tiles);
      const isSelected = (tile) => selected.some(([low, high]) => low <= tile && tile <= high);
      for (let ipu = 0; ipu < data.n_ipus; ipu += 1) {
        const [x, y] = this.originOf(ipu);
        context.fillStyle = colours.soft;
        context.textBaseline = 'middle';
        context.fillText('IPU ' + ipu, x, y - TITLE / 2);
        for (let i = 0; i < data.tiles_per_ipu; i += 1) {
          const tile = ipu * data.tiles_per_ipu + i;
          const [left, top] = [x + data.column[i] * cell, y + data.row[i] * cell];
          context.fillStyle = this.colourOf(space.levelOf(data.values[tile], data.highest_bytes, this.levels));
          context.fillRect(left, top, room, room);
          if (tile === this.cursor || selected.length && isSelected(tile)) {
            context.strokeStyle = tile === this.cursor ? colours.ink : colours.match;
            context.lineWidth = 2;
            context.strokeRect(left, top, room, room);
          }
        }
      }
    }

    // Shades of one direction.
    get levels() {
      return this.data.is_change ? CHANGES : LEVELS;
    }

    colourOf(level) {
      const {colours, levels} = this;
      if (!level) return colours.line;
      if (this.data.is_change) return colours[level < 0 ? 'less' : 'more'][Math.abs(level) - 1];
      return space.mixed(colours.scaleLow, colours.scaleHigh, (level - 1) / (levels - 1));
    }

    paintLegend() {
      const {data, levels} = this;
      const step = data.highest_bytes / levels;
      const upTo = (level) => bytes(Math.floor(level * step));
      this.entries = [{label: data.is_change ? 'no change' : 'nothing', colour: this.colourOf(0)}];
      for (let level = 1; level <= levels && data.highest_bytes; level += 1) {
        const label = data.is_change ? 'up to ' + upTo(level) + ' more' : 'up to ' + upTo(level);
        this.entries.push({label, colour: this.colourOf(level)});
        if (!data.is_change) continue;
        this.entries.unshift({label: 'up to ' + upTo(level) + ' less', colour: this.colourOf(-level)});
      }
      this.legend.textContent = '';
      for (const {label, colour} of this.entries) {
        const item = axis.make('span', '', this.legend);
        axis.make('span', 'swatch', item).style.background = colour;
        item.append(label);
      }
      const side = !this.view.with ? '' : data.is_change ? ', candidate minus baseline'
        : ' of the ' + (this.view.shows === 'candidate' ? 'candidate' : 'baseline');
      const total = data.values.reduce((sum, value) => sum + value, 0);
      const text = data.title + side + ' by tile, as the tiles lie; rows and columns of the floor plan'
        + (data.is_change ? ' · all tiles: ' + space.signedBytes(total) : '');
      if (this.note.textContent !== text) this.note.textContent = text;
    }

    // What a tile holds, or by how much it changed.
    valueOf(tile) {
      const value = this.data.values[tile];
      if (!this.data.is_change) return bytes(value) + ' (' + axis.count(value) + ' B)';
      return space.signedBytes(value) + (value ? ' (' + axis.count(Math.abs(value)) + ' B '
        + (value > 0 ? 'more' : 'less') + ')' : '');
    }

    // The tile under the pointer, null if there is none.
    tileOf(event) {
      const {data, layout} = this;
      if (!data || !layout) return null;
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      for (let ipu = 0; ipu < data.n_ipus; ipu += 1) {
        const [left, top] = this.originOf(ipu);
        const [column, row] = [Math.floor((x - left) / layout.cell), Math.floor((y - top) / layout.cell)];
        if (column < 0 || column >= data.n_columns || row < 0 || row >= data.n_rows) continue;
        const tile = data.tileAt.get(row * data.n_columns + column);
        return tile === undefined ? null : ipu * data.tiles_per_ipu + tile;
      }
      return null;
    }

    placeOf(tile) {
      const {data} = this;
      const i = tile % data.tiles_per_ipu;
      return {ipu: Math.floor(tile / data.tiles_per_ipu), row: data.row[i], column: data.column[i]};
    }

    textOf(tile) {
      const {ipu, row, column} = this.placeOf(tile);
      return 'Tile ' + axis.count(tile) + ' · IPU ' + ipu + ', row ' + row + ', column ' + column;
    }

    hover(tile, event) {
      if (tile === null) { this.tooltip.style.display = 'none'; return; }
      const {data, tooltip} = this;
      const root = this.root.getBoundingClientRect();
      tooltip.textContent = '';
      axis.make('div', 'chart-tooltip-title', tooltip).textContent = this.textOf(tile);
      axis.make('div', '', tooltip).textContent = data.title + ': ' + this.valueOf(tile);
      tooltip.style.display = 'block';
      const x = event.clientX - root.left + 14;
      const isRight = x + tooltip.offsetWidth < root.width;
      tooltip.style.left = Math.max(0, isRight ? x : x - tooltip.offsetWidth - 28) + 'px';
      tooltip.style.top = event.clientY - root.top + 14 + 'px';
    }

    press(event) {
      const {data} = this;
      const by = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
      if (by) {
        event.preventDefault();
        this.moveCursor(this.cursor === null ? null : by);
        return true;
      }
      if (event.key === 'Enter' && this.cursor !== null) {
        event.preventDefault();
        this.options.pick({item: this.cursor, side: 0, isMore: event.shiftKey});
        return true;
      }
      if (event.key === 'Escape') { this.options.pick(null); return true; }
      return !data;
    }

    // The next tile in a direction, on the next IPU behind the edge; the selected tile at first.
    moveCursor(by) {
      const {data} = this;
      const [first] = space.ranges(this.view.tiles);
      if (by === null) this.cursor = first ? Math.min(first[0], data.values.length - 1) : 0;
      else {
        const place = this.placeOf(this.cursor);
        const size = data.n_columns;
        const column = place.column + by[1];
        const ipu = place.ipu + (column < 0 ? -1 : column >= size ? 1 : 0);
        const tile = data.tileAt.get((place.row + by[0]) * size + (column + size) % size);
        if (tile === undefined || ipu < 0 || ipu >= data.n_ipus) return;
        this.cursor = ipu * data.tiles_per_ipu + tile;
      }
      const {cursor} = this;
      this.box.setAttribute('aria-valuenow', String(cursor));
      this.box.setAttribute('aria-valuetext',
        this.textOf(cursor) + ': ' + data.title + ' ' + this.valueOf(cursor));
      const place = this.placeOf(cursor);
      const [left, top] = this.originOf(place.ipu);
      const box = this.canvas.getBoundingClientRect();
      this.hover(cursor, {
        clientX: box.left + left + place.column * this.layout.cell,
        clientY: box.top + top + place.row * this.layout.cell,
      });
      this.draw();
    }

    table() {
      const {data} = this;
      return {
        columns: ['tile', 'IPU', 'row', 'column', data.title + (data.is_change ? ', change (bytes)' : ' (bytes)')],
        rows: Array.from(data.values, (value, tile) => {
          const {ipu, row, column} = this.placeOf(tile);
          return [tile, ipu, row, column, value];
        }),
      };
    }
  };
})();
