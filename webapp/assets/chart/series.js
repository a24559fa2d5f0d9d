// Bytes over tiles or steps: stacked areas of one report; of two reports outlines in one plot, or
// two plots below each other.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const axis = window.tilescopeAxis;
  const bytes = (size) => /** @type {string} */ (window.tilescopeFormats.tilescopeBytes(size));
  const exact = (size) => axis.count(size) + ' B';
  const GAP = 14;
  const RETRY_MS = 3000;
  const MOST_BORDERS = 40;
  const MOST_DASHED = 500;

  // What the line of the capacity means: beside what always lives, only the rest can be used.
  function limitText({capacity_bytes: capacity, beside_bytes: beside}) {
    if (!beside) return 'capacity ' + bytes(capacity);
    const left = capacity - beside;
    return left < 0 ? 'what always lives exceeds the capacity by ' + bytes(-left)
      : 'left beside what always lives: ' + bytes(left);
  }

  // `path` of the view and `query` are what is asked; `pick` and `pickRange` select.
  space.SeriesPlot = class SeriesPlot extends space.Frame {
    constructor(root, options) {
      super(root, options);
      this.options = options;
      this.near = null;
      this.whole = null;
      this.point = null;
      this.names = new Map();
    }

    viewChanged() {
      const path = this.options.path(this.view);
      const asked = JSON.stringify([path, this.options.query(this.view)]);
      this.box.classList.toggle('is-double', Boolean(this.view.with) && this.isSeparate);
      if (asked === this.asked) return;
      if (path !== this.path) {
        // Another report: nothing of the old picture holds.
        this.near = this.whole = this.extent = this.point = null;
        this.names.clear();
        this.say('Reading the report …');
      }
      this.asked = asked;
      this.path = path;
      this.failed = '';
      this.cursor = null;
      this.options.viewChanged?.(this);
    }

    get isSeparate() {
      return this.view.sides === 'separate';
    }

    // What is drawn: the finer answer if it covers the visible range, else that of the whole axis.
    get data() {
      const {near, whole, range} = this;
      const covers = near && near.asked === this.asked
        && near.start <= Math.max(range.start, -0.5) + 0.5 && near.end >= range.end - 0.5;
      return covers || !whole ? near || whole : whole;
    }

    // Whether every place is drawn, or a column is about a pixel.
    isGood(data, columns) {
      if (!data || data.asked !== this.asked) return false;
      const {start, end} = this.range;
      if (data.start > Math.max(0, start + 0.5) || data.end < Math.min(end, this.extent.end) - 0.5) return false;
      if (data.sides.every((side) => side.n_shown === side.n_items)) return true;
      const perColumn = (data.end - data.start) / data.n_columns;
      return perColumn <= 1.05 * (end - start) / columns;
    }

    // Asks for the whole axis first, then for the visible range with its neighbours.
    async request() {
      if (this.inFlight || this.failed || !this.view.report || !this.isShown()) return;
      const columns = Math.max(50, Math.ceil(this.width * Math.min(2, window.devicePixelRatio || 1)));
      const {asked, path} = this;
      const needsWhole = !this.whole || this.whole.asked !== asked;
      if (!needsWhole && (this.isGood(this.whole, columns) || this.isGood(this.near, columns))) return;
      let [start, end, width] = [0, 2 ** 31 - 1, columns];
      if (!needsWhole) {
        const room = (this.range.end - this.range.start) / 2;
        start = Math.max(0, Math.floor(this.range.start - room));
        end = Math.min(Math.ceil(this.extent.end), Math.ceil(this.range.end + room));
        width = Math.min(20_000, Math.ceil(columns * (end - start) / (this.range.end - this.range.start)));
      }
      this.inFlight = true;
      try {
        const query = {...this.options.query(this.view), start, end, width};
        const answer = await space.ask(path + '/window', query);
        const data = space.unpackChart(await answer.arrayBuffer());
        if (asked === this.asked) this.take(data, needsWhole);
      } catch (error) {
        if (asked !== this.asked) return;
        this.failed = error.message;
        this.say(error.message, true);
        setTimeout(() => { this.failed = ''; this.request(); }, RETRY_MS);
      } finally {
        this.inFlight = false;
        if (!this.failed) this.request();
      }
    }

    take(data, isWhole) {
      data.asked = this.asked;
      if (isWhole) {
        this.whole = data;
        this.strip.forget();
        this.setExtent(data.n_places);
        this.say(data.n_places ? '' : 'Nothing to draw: this report has no ' + this.noun + 's.');
        if (this.near && this.near.asked !== this.asked) this.near = null;
      } else {
        this.near = data;
      }
      this.root.dataset.drawn = data.sides.map((side) => side.series.length).join(',');
      if (this.cursor !== null) this.tell(this.cursor);
      this.draw();
    }

    // The highest value of the axes: all plots have the same, at any zoom.
    scale(data) {
      const highest = Math.max(1, ...data.sides.map((side) => side.highest_bytes));
      const {capacity_bytes: capacity, beside_bytes: beside} = data.sides[0];
      const limit = Math.max(0, capacity - beside);
      const isNear = this.view.max === '1' || 2 * highest >= limit;
      return {limit: isNear ? limit : null, top: Math.max(highest, isNear ? limit : 0) * 1.05};
    }

    // The plots below each other: which sides they draw, and where.
    panes(data, area) {
      const groups = data.sides.length > 1 && this.isSeparate
        ? data.sides.map((side) => [side]) : [data.sides];
      const height = (area.height - GAP * (groups.length - 1)) / groups.length;
      return groups.map((sides, i) => ({sides, ...area, y: area.y + i * (height + GAP), height}));
    }

    paintContent(context, area, colours, ratio) {
      const {data} = this;
      if (!data) return;
      const scale = this.scale(data);
      const isFaded = data.sides.some((side) => side.n_found !== null);
      for (const pane of this.panes(data, area)) {
        this.paintScale(context, pane, scale, colours);
        context.save();
        context.beginPath();
        context.rect(pane.x, pane.y - 1, pane.width, pane.height + 1);
        context.clip();
        const isCompared = pane.sides.length > 1;
        for (const side of pane.sides) {
          const ends = this.columnEnds(side, ratio);
          if (isCompared) this.paintOutline(context, pane, side, scale, ends);
          else this.paintStack(context, pane, side, scale, ends, ratio);
        }
        if (isFaded) {
          context.globalAlpha = 0.65;
          context.fillStyle = colours.surface;
          context.fillRect(pane.x, pane.y, pane.width, pane.height);
          context.globalAlpha = 1;
        }
        for (const side of pane.sides) this.paintMatches(context, pane, side, scale, colours);
        this.paintBorders(context, pane, data, colours);
        this.paintCapacity(context, pane, scale, limitText(data.sides[0]), colours);
        this.paintLives(context, pane, colours);
        for (const [first, last] of this.selectedPlaces()) {
          this.paintBand(context, pane, first, last, colours.ink, 'edge');
        }
        this.paintMarks(context, pane, colours);
        context.restore();
        if (data.sides.length > 1 && !isCompared) {
          const {name} = pane.sides[0];
          context.globalAlpha = 0.85;
          context.fillStyle = colours.surface;
          context.fillRect(pane.x + 3, pane.y + 1, context.measureText(name).width + 8, 15);
          context.globalAlpha = 1;
          context.fillStyle = colours.ink;
          context.textBaseline = 'top';
          context.fillText(name, pane.x + 7, pane.y + 4);
        }
      }
      this.paintLegend(this.legendOf(data));
    }

    paintScale(context, pane, {top}, colours) {
      context.textBaseline = 'middle';
      context.textAlign = 'right';
      for (const tick of axis.byteTicks(top, Math.max(2, pane.height / 60))) {
        if (tick > top) break;
        const y = Math.round(pane.y + pane.height * (1 - tick / top));
        context.fillStyle = colours.line;
        context.fillRect(pane.x, y, pane.width, 1);
        context.fillStyle = colours.soft;
        context.fillText(tick ? bytes(tick).replace('.0 ', ' ') : '0', pane.x - 8, y);
      }
      context.textAlign = 'left';
    }

    // Where the visible places of a side begin and end on the screen, on whole device pixels; a
    // place reaches half-way to its neighbours.
    columnEnds(side, ratio) {
      const {place} = side;
      const {start, end} = this.range;
      const from = Math.max(0, space.lowerBound(place, start) - 1);
      const to = Math.min(place.length, space.lowerBound(place, end) + 1);
      const ends = new Float64Array(to - from + 1);
      const snap = (position) => Math.round(this.pixelOf(position) * ratio) / ratio;
      for (let i = from; i <= to; i += 1) {
        ends[i - from] = i === 0 || i === from ? snap(place[i] - 0.5)
          : i === place.length || i === to ? snap(place[i - 1] + 0.5)
            : snap((place[i - 1] + place[i]) / 2);
      }
      return {from, to, ends};
    }

    paintStack(context, pane, side, {top}, {from, to, ends}, ratio) {
      const thin = 1 / ratio;
      const below = new Float64Array(to - from);
      const base = pane.y + pane.height;
      for (const {values, colour} of side.series) {
        context.fillStyle = colour;
        for (let i = from; i < to; i += 1) {
          const value = values[i];
          if (!value) continue;
          const j = i - from;
          const y0 = base - pane.height * below[j] / top;
          below[j] += value;
          const y1 = base - pane.height * below[j] / top;
          context.fillRect(pane.x + ends[j], y1, Math.max(thin, ends[j + 1] - ends[j]), y0 - y1);
        }
      }
    }

    paintOutline(context, pane, side, {top}, {from, to, ends}) {
      const base = pane.y + pane.height;
      const line = new Path2D();
      for (let i = from; i < to; i += 1) {
        const y = base - pane.height * side.stack[i] / top;
        const j = i - from;
        if (j === 0) line.moveTo(pane.x + ends[0], y);
        else line.lineTo(pane.x + ends[j], y);
        line.lineTo(pane.x + ends[j + 1], y);
      }
      if (from === to) return;
      const filled = new Path2D(line);
      filled.lineTo(pane.x + ends[to - from], base);
      filled.lineTo(pane.x + ends[0], base);
      context.globalAlpha = 0.12;
      context.fillStyle = side.colour;
      context.fill(filled);
      context.globalAlpha = 1;
      const isDashed = side.name === 'Candidate';
      if (to - from > MOST_DASHED) {
        this.paintDenseLine(context, pane, side, {top}, {from, to, ends}, isDashed);
        return;
      }
      context.strokeStyle = side.colour;
      context.lineWidth = 1.5;
      context.setLineDash(isDashed ? [5, 3] : []);
      context.stroke(line);
      context.setLineDash([]);
    }

    // A line of many places as one rectangle each: dashes along a long path take most of a frame.
    paintDenseLine(context, pane, side, {top}, {from, to, ends}, isDashed) {
      const base = pane.y + pane.height;
      context.fillStyle = side.colour;
      let before = null;
      for (let i = from; i < to; i += 1) {
        const x = ends[i - from];
        const y = base - pane.height * side.stack[i] / top;
        const high = before === null ? y : Math.min(y, before);
        const tall = before === null ? 0 : Math.abs(y - before);
        before = y;
        // Dashes are in the level parts only.
        if (!isDashed || Math.floor(x) % 8 < 5) {
          context.fillRect(pane.x + x, y - 0.75, Math.max(1, ends[i - from + 1] - x), 1.5);
        }
        if (tall > 1.5) context.fillRect(pane.x + x, high, 1, tall);
      }
    }

    paintMatches(context, pane, side, {top}, colours) {
      const {place, height} = side.matches;
      context.fillStyle = colours.match;
      const from = space.lowerBound(place, this.range.start);
      const to = space.lowerBound(place, this.range.end);
      for (let i = from; i < to; i += 1) {
        const y = pane.y + pane.height * (1 - height[i] / top);
        context.beginPath();
        context.arc(pane.x + this.pixelOf(place[i]), y, 2.5, 0, 7);
        context.fill();
      }
    }

    paintBorders(context, pane, data, colours) {
      const size = data.tiles_per_ipu;
      if (!size || data.n_places <= size) return;
      const {start, end} = this.range;
      const first = Math.max(0, Math.floor((start + 0.5) / size));
      const last = Math.ceil((end + 0.5) / size);
      if (last - first > MOST_BORDERS) return;
      context.textBaseline = 'top';
      let free = -1;
      for (let ipu = first; ipu < last; ipu += 1) {
        const x = Math.round(pane.x + this.pixelOf(ipu * size - 0.5));
        context.fillStyle = colours.border;
        context.fillRect(x, pane.y, 1, pane.height);
        const text = 'IPU ' + ipu;
        const left = Math.max(x, pane.x) + 4;
        const width = context.measureText(text).width;
        if (left < free || pane.x + this.pixelOf((ipu + 1) * size - 0.5) < left + width) continue;
        free = left + width + 8;
        context.globalAlpha = 0.75;
        context.fillStyle = colours.surface;
        context.fillRect(left - 2, pane.y, width + 4, 14);
        context.globalAlpha = 1;
        context.fillStyle = colours.soft;
        context.fillText(text, left, pane.y + 2);
      }
    }

    paintCapacity(context, pane, {limit, top}, text, colours) {
      if (limit === null) return;
      const y = Math.round(pane.y + pane.height * (1 - limit / top)) - 0.5;
      context.strokeStyle = colours.capacity;
      context.lineWidth = 1.4;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(pane.x, y);
      context.lineTo(pane.x + pane.width, y);
      context.stroke();
      context.setLineDash([]);
      const width = context.measureText(text).width;
      const x = pane.x + pane.width - width - 4;
      context.globalAlpha = 0.75;
      context.fillStyle = colours.surface;
      const below = y + 16 < pane.y + pane.height ? y + 3 : y - 15;
      context.fillRect(x - 3, below - 1, width + 6, 14);
      context.globalAlpha = 1;
      context.fillStyle = colours.capacity;
      context.textBaseline = 'top';
      context.fillText(text, x, below);
    }

    // The life of the selected variable, as a bar at the bottom of its side.
    paintLives(context, pane, colours) {
      const alone = pane.sides.length === 1;
      pane.sides.forEach((side, row) => {
        for (const [first, last] of side.lives || []) {
          const from = Math.max(-4, this.pixelOf(first - 0.5));
          const to = Math.min(pane.width + 4, this.pixelOf(last - 0.5));
          if (to < 0 || from > pane.width) continue;
          const y = pane.y + pane.height - 11 - 11 * (pane.sides.length - 1 - row);
          context.fillStyle = colours.surface;
          context.fillRect(pane.x + from - 1, y - 1, Math.max(3, to - from) + 2, 10);
          context.fillStyle = alone ? colours.match : side.colour;
          context.fillRect(pane.x + from, y, Math.max(3, to - from), 8);
        }
      });
    }

    paintWhole(context, width, height, colours, ratio) {
      const {whole} = this;
      if (!whole) return;
      const {top} = this.scale(whole);
      const thin = 1 / ratio;
      const span = this.extent.end - this.extent.start;
      whole.sides.forEach((side, number) => {
        context.fillStyle = side.colour;
        let x0 = 0;
        for (let i = 0; i < side.n_shown; i += 1) {
          const next = i + 1 < side.n_shown ? (side.place[i] + side.place[i + 1]) / 2 : side.place[i] + 0.5;
          const x1 = Math.round((next - this.extent.start) / span * width * ratio) / ratio;
          const tall = (height - 3) * side.stack[i] / top;
          // Of two reports, the second is a line over the first.
          context.fillRect(x0, height - 1 - tall, Math.max(thin, x1 - x0), number ? Math.min(1.5, tall) : tall);
          x0 = x1;
        }
      });
    }

    legendOf(data) {
      const entries = [];
      if (data.sides.length > 1 && !this.isSeparate) {
        for (const {name, colour} of data.sides) {
          entries.push({label: name, colour, style: name === 'Candidate' ? 'dashed' : 'line'});
        }
      } else {
        for (const side of data.sides) {
          for (const {label, colour} of side.series) {
            if (label && !entries.some((entry) => entry.label === label)) entries.push({label, colour});
          }
        }
      }
      const found = data.sides.filter((side) => side.n_found !== null);
      if (found.length) {
        const counts = found.map((side) => axis.count(side.n_found)).join(' and ');
        entries.push({label: 'Matches (' + counts + ')', colour: this.colours.match, style: 'dot'});
      }
      if (data.sides.some((side) => (side.lives || []).length)) {
        const colour = data.sides.length > 1 && !this.isSeparate ? this.colours.soft : this.colours.match;
        entries.push({label: 'Life of ' + this.view.var, colour, style: 'line'});
      }
      return entries;
    }

    writeNote() {
      const {data, marked} = this;
      if (!data) return;
      const parts = [];
      const visible = Math.round(Math.min(this.range.end, this.extent.end) - Math.max(this.range.start, -0.5));
      if (data.sides.some((side) => side.n_shown < side.n_items)) {
        const columns = Math.max(1, Math.round(visible * data.n_columns / (data.end - data.start) / 2));
        parts.push(axis.count(visible) + ' ' + this.placeNoun + 's drawn in ' + axis.count(columns)
          + ' columns, the lowest and highest of each; zoom in to see all');
      } else if (visible < data.n_places) {
        parts.push(axis.plural(visible, this.placeNoun, this.placeNoun + 's') + ' of ' + axis.count(data.n_places));
      }
      if (data.sides.length > 1 && !this.isSeparate && data.sides.some((side) => side.series.length > 1)) {
        parts.push('totals are drawn; the tooltip has the breakdown, and Separate draws it');
      }
      if (marked) {
        parts.push(axis.count(marked.end - marked.start + 1) + ' ' + this.placeNoun + 's marked, '
          + axis.count(marked.start) + ' to ' + axis.count(marked.end) + '; F zooms to them'
          + (this.options.pickRange ? ', Enter selects them' : ''));
      }
      const text = parts.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
    }

    // The rows of a place: every series with the value of every side.
    rowsAt(data, place) {
      const at = data.sides.map((side) => space.indexOf(side.place, place));
      const value = (size) => size === undefined ? '–' : bytes(size);
      const labels = new Map();
      data.sides.forEach((side) => side.series.forEach(({label, colour}) => {
        if (!labels.has(label)) labels.set(label, colour);
      }));
      const rows = [...labels].map(([label, colour]) => [colour, label, ...data.sides.map((side, i) => {
        const series = side.series.find((one) => one.label === label);
        return at[i] < 0 || !series ? undefined : series.values[at[i]];
      })]).filter((row) => row.slice(2).some(Boolean)).reverse();
      if (labels.size > 1) rows.push(['', 'Total', ...data.sides.map((side, i) => side.total[at[i]])]);
      return rows.map(([colour, label, ...sizes]) => data.sides.length > 1
        ? [colour, label, ...sizes.map(value)] : [colour, label, value(sizes[0]), exact(sizes[0] ?? 0)]);
    }

    // Number of the tile or step of every side at a place, undefined where it has none.
    itemsAt(data, place) {
      return data.sides.map((side) => side.item[space.indexOf(side.place, place)]);
    }

    titleAt(data, place) {
      const items = this.itemsAt(data, place);
      const named = (item) => item === undefined ? '–' : axis.count(item);
      const isSame = items.every((item) => item === items[0]);
      const title = this.noun[0].toUpperCase() + this.noun.slice(1) + ' '
        + (isSame ? named(items[0]) : items.map(named).join(' | '));
      return title + (this.options.more?.(this, data, place, items) || '');
    }

    hover(at) {
      this.last = at || this.last;
      const {data} = this;
      if (!at || !data || at.x > this.width || this.goal) { this.point = null; this.hideTooltip(); return; }
      const place = this.placeNear(data, this.positionAt(at.x));
      if (place === null) { this.hideTooltip(); return; }
      this.point = {place, at};
      let rows = this.rowsAt(data, place);
      if (data.sides.length > 1) rows = [['', '', ...data.sides.map((side) => side.name)], ...rows];
      this.showTooltip(this.titleAt(data, place), rows, at);
    }

    // The drawn place nearest to a position.
    placeNear(data, position) {
      let best = null;
      for (const side of data.sides) {
        const i = space.nearest(side.place, position);
        if (i < 0) continue;
        const place = side.place[i];
        if (best === null || Math.abs(place - position) < Math.abs(best - position)) best = place;
      }
      return best;
    }

    // Says a place's values to a screen reader, and shows them; asks for them if they are not drawn.
    async tell(place) {
      this.box.setAttribute('aria-valuenow', String(place));
      let {data} = this;
      const {asked} = this;
      if (!data) return;
      if (data.sides.every((side) => space.indexOf(side.place, place) < 0)) {
        try {
          const query = {...this.options.query(this.view), start: place, end: place + 1, width: 1};
          data = space.unpackChart(await (await space.ask(this.path + '/window', query)).arrayBuffer());
        } catch (error) { return; }
        if (asked !== this.asked || this.cursor !== place) return;
      }
      const title = this.titleAt(data, place);
      let rows = this.rowsAt(data, place);
      this.box.setAttribute('aria-valuetext', title + ': '
        + rows.map(([, label, ...values]) => (label + ' ' + values.join(', ')).trim()).join('; '));
      if (data.sides.length > 1) rows = [['', '', ...data.sides.map((side) => side.name)], ...rows];
      if (document.activeElement === this.box) {
        this.showTooltip(title, rows, {x: this.pixelOf(place), y: 20});
      }
      this.told = {place, data};
    }

    click(at, event) {
      const {data} = this;
      if (!data) return;
      this.box.focus({preventScroll: true});
      const place = this.placeNear(data, this.positionAt(at.x));
      if (place !== null) this.select(data, place, event && event.shiftKey);
    }

    async pick(place, isMore) {
      if (place === null) { this.options.pick(null); return; }
      await this.telling;
      const data = this.told && this.told.place === place ? this.told.data : this.data;
      if (data) this.select(data, place, isMore);
    }

    select(data, place, isMore) {
      const items = this.itemsAt(data, place);
      const side = items.findIndex((item) => item !== undefined);
      if (side >= 0) this.options.pick({item: items[side], side, isMore});
    }

    pickRange(range) {
      this.options.pickRange?.(this, range);
    }

    selectedPlaces() {
      return this.data ? this.options.selected(this, this.data) : [];
    }

    selectedRange() {
      const places = [...this.selectedPlaces(), ...this.data.sides.flatMap((side) =>
        (side.lives || []).map(([first, last]) => [first, last - 1]))];
      if (!places.length) return null;
      return {start: Math.min(...places.map(([first]) => first)), end: Math.max(...places.map(([, last]) => last))};
    }

    cursorStart() {
      const [found] = this.selectedPlaces();
      return found ? found[0] : null;
    }

    // The drawn values of the visible range.
    table() {
      const {data, range} = this;
      const columns = [this.noun];
      const many = data.sides.length > 1;
      for (const side of data.sides) {
        const prefix = many ? side.name + ' ' : '';
        if (many) columns.push(prefix + this.noun);
        columns.push(...side.series.map(({label}) => prefix + (label || 'Variables') + ' (bytes)'));
        columns.push(prefix + 'total (bytes)');
      }
      const places = new Set(data.sides.flatMap((side) => [...side.place]));
      const rows = [...places].filter((place) => place >= range.start && place <= range.end)
        .sort((a, b) => a - b).map((place) => data.sides.flatMap((side, i) => {
          const at = space.indexOf(side.place, place);
          const values = [...side.series.map(({values: of}) => of[at]), side.total[at]];
          const item = at < 0 ? '' : side.item[at];
          const shown = at < 0 ? values.map(() => '') : values;
          return many ? [...(i ? [] : [place]), item, ...shown] : [item, ...shown];
        }));
      if (many) columns[0] = 'place';
      return {columns, rows};
    }
  };
})();
