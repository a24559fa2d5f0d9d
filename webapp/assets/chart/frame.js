// A plot over an axis of whole places, such as tiles or steps: its elements, its motion, cursor and
// selection, and when it draws. What is drawn is a subclass's: the series, or the lives of variables.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const axis = window.tilescopeAxis;
  const QUIET_MS = 220;
  const LEFT = 74;
  const RIGHT = 12;
  const TOP = 10;
  const RULER = 22;
  const STRIP = 34;

  // Motion along the axis is that of all components with one.
  const Moving = /** @type {new () => AxisMotion & ChartPlotParts} */ (/** @type {unknown} */ (class {}));
  Object.defineProperties(Moving.prototype, Object.getOwnPropertyDescriptors(axis.motion));

  space.readColours = (element) => {
    const style = getComputedStyle(element);
    const value = (name) => style.getPropertyValue('--' + name).trim() || '#888';
    return {
      ink: value('ink'), soft: value('ink-soft'), line: value('grid-line'), edge: value('line'),
      surface: value('surface'), page: value('page'), accent: value('accent'), shade: value('chart-shade'),
      capacity: value('capacity'), match: value('chart-match'), gap: value('chart-gap'),
      scaleLow: value('chart-low'), scaleHigh: value('chart-high'), border: value('chart-border'),
      less: [1, 2, 3, 4].map((level) => value('flame-less-' + level)),
      more: [1, 2, 3, 4].map((level) => value('flame-more-' + level)),
      font: '11px ' + (style.getPropertyValue('--font').trim() || 'sans-serif'),
    };
  };

  /** @implements {AxisView} */
  space.Frame = class Frame extends Moving {
    constructor(root, {noun, label, fileName, axes}) {
      super();
      this.root = root;
      this.axes = axes;
      this.noun = noun;
      this.fileName = fileName;
      this.label = label;
      this.shortest = 4;
      this.view = {};
      this.range = {start: 0, end: 1};
      this.extent = null;
      this.goal = null;
      this.marked = null;
      this.cursor = null;
      this.last = null;
      this.frames = [];
      this.failed = '';
      this.tools = axis.make('div', 'chart-tools', root);
      this.tool('+', 'Zoom in (W)', () => this.zoomAt(1 / 2, 0.5, true));
      this.tool('−', 'Zoom out (S)', () => this.zoomAt(2, 0.5, true));
      this.tool('All', 'All: show everything (0)', () => this.showAll());
      this.tool('PNG', 'PNG: save as a picture', () => this.savePicture());
      this.tool('CSV', 'CSV: save the drawn data', () => this.saveData());
      this.stripBox = axis.make('div', 'chart-strip', root);
      this.box = axis.make('div', 'chart-box', root);
      this.box.tabIndex = 0;
      this.box.setAttribute('role', 'slider');
      this.box.setAttribute('aria-valuemin', '0');
      this.box.setAttribute('aria-valuenow', '0');
      this.canvas = axis.make('canvas', 'chart-canvas', this.box);
      this.tooltip = axis.make('div', 'chart-tooltip', root);
      this.message = axis.make('div', 'chart-message', root);
      this.legend = axis.make('div', 'chart-legend legend', root);
      this.note = axis.make('div', 'chart-note', root);
      this.note.setAttribute('role', 'status');
      this.strip = new axis.Strip(this.stripBox, this, {
        height: STRIP,
        name: (position) => this.placeNoun + ' ' + axis.count(Math.max(0, position)),
        paintWhole: (context, width, height, colours, ratio) =>
          this.paintWhole(context, width, height, colours, ratio),
      });
      const place = (event) => {
        const box = this.canvas.getBoundingClientRect();
        return {x: event.clientX - box.left - LEFT, y: event.clientY - box.top};
      };
      axis.connectWheel(this, this.box, place);
      axis.connectDrag(this, this.box, place, {
        isInside: (_, at) => at.x >= 0 && at.x <= this.width,
        isRange: (event) => event.shiftKey,
        begin: () => this.dragBegun(),
        panned: (begun, down) => this.dragged(begun, down),
      });
      this.box.addEventListener('dblclick', () => this.extent && this.showAll());
      this.box.addEventListener('blur', () => { this.cursor = null; this.hover(null); this.draw(); });
      new ResizeObserver(() => { this.strip.forget(); this.draw(); this.request(); }).observe(this.box);
      new MutationObserver(() => { this.colours = null; this.draw(); }).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    // What the axis counts: of two reports, places of their alignment, which are steps of neither.
    get placeNoun() {
      const sides = (/** @type {any} */ (this)).data?.sides?.length ?? 1;
      return this.noun === 'step' && sides > 1 ? 'place' : this.noun;
    }

    tool(text, title, act) {
      axis.tool(this.tools, text, title, () => { if (this.extent) act(); });
    }

    get width() {
      return Math.max(1, this.box.clientWidth - LEFT - RIGHT);
    }

    get height() {
      return this.box.clientHeight;
    }

    // Where the plot lies on the canvas.
    get area() {
      return {x: LEFT, y: TOP, width: this.width, height: Math.max(1, this.height - TOP - RULER)};
    }

    isShown() {
      return this.box.offsetParent !== null;
    }

    say(text, isError) {
      this.message.textContent = text;
      this.message.classList.toggle('is-error', Boolean(isError));
      this.message.setAttribute('role', isError ? 'alert' : 'status');
      this.root.classList.toggle('is-empty', text !== '' && !this.extent);
    }

    // The axis is that of some data; the address says what of it is visible.
    setExtent(nPlaces) {
      const extent = {start: -0.5, end: Math.max(nPlaces, 1) - 0.5};
      const isNew = !this.extent || this.extent.end !== extent.end;
      this.extent = extent;
      if (!isNew) return;
      this.range = {...extent};
      this.follow(this.view.x || '');
      this.box.setAttribute('aria-valuemax', String(Math.max(0, nPlaces - 1)));
    }

    // Applies the range in the address, unless it is the one already shown.
    follow(text) {
      if (!this.extent || text === this.rangeText()) return;
      const found = /^(-?[\d.]+):(-?[\d.]+)$/.exec(text);
      const [low, high] = found ? [Number(found[1]), Number(found[2])] : [this.extent.start, this.extent.end];
      if (high > low) this.range = this.bounded(low, high);
    }

    rangeText() {
      const {start, end} = this.target();
      if (start <= this.extent.start && end >= this.extent.end) return '';
      const digits = end - start > 50 ? 0 : 2;
      return start.toFixed(digits) + ':' + end.toFixed(digits);
    }

    // Follows the address, whose values are strings.
    show(view) {
      const before = this.view;
      this.view = view;
      const mark = /^(\d+):(\d+)$/.exec(view.mark || '');
      if ((view.mark || '') !== (before.mark || '')) {
        this.marked = mark ? {start: Number(mark[1]), end: Number(mark[2])} : null;
      }
      if ((view.x || '') !== (before.x || '')) this.follow(view.x || '');
      this.box.setAttribute('aria-label', this.label + '. Left and right move a cursor, Enter selects;'
        + ' W and S zoom, A and D pan, F shows the selection, 0 everything.');
      this.viewChanged(before);
      this.draw();
      this.request();
    }

    // A drag moves the axis; a plot may move its other direction as well.
    dragBegun() {
      return null;
    }

    dragged(begun, down) {
      void [begun, down];
    }

    // What the address holds of the plot.
    state() {
      const {marked} = this;
      return {x: this.rangeText(), mark: marked ? marked.start + ':' + marked.end : ''};
    }

    // Writes the address after a short pause.
    changed() {
      clearTimeout(this.quiet);
      const {report} = this.view;
      this.quiet = setTimeout(() => {
        if (!this.extent || !this.isShown() || this.view.report !== report) return;
        const address = this.state();
        Object.assign(this.view, address);
        window.tilescope.changeView(address, false);
      }, QUIET_MS);
    }

    mark(from, to) {
      const clamp = (place) => Math.max(0, Math.min(Math.round(place), this.extent.end - 0.5));
      const [start, end] = [clamp(Math.min(from, to)), clamp(Math.max(from, to))];
      this.marked = end > start ? {start, end} : null;
      this.draw();
    }

    clear() {
      this.marked = null;
      this.cursor = null;
      this.hover(null);
      this.pick(null, false);
      this.draw();
      this.changed();
    }

    focusSelection() {
      const found = this.marked || this.selectedRange();
      if (!found) return;
      const room = Math.max(2, (found.end - found.start) * 0.1);
      this.moveTo(found.start - room, found.end + room, true);
    }

    // The keys of the cursor, of a plot that has the focus.
    press(event) {
      const last = this.extent.end - 0.5;
      const far = event.shiftKey ? 10 : 1;
      const at = this.cursor === null ? this.cursorStart() : this.cursor;
      const places = {
        ArrowRight: this.cursor === null && at === null ? 0 : (at ?? 0) + far,
        ArrowLeft: this.cursor === null && at === null ? last : (at ?? 0) - far,
        Home: 0, End: last,
      };
      if (event.key in places) {
        event.preventDefault();
        this.moveCursor(Math.max(0, Math.min(last, places[event.key])));
        return true;
      }
      if (event.key === 'Enter' && (this.cursor !== null || this.marked)) {
        event.preventDefault();
        if (this.cursor !== null) this.pick(this.cursor, event.shiftKey);
        else this.pickRange(this.marked);
        return true;
      }
      if (event.key === 'Escape') { this.clear(); return true; }
      return false;
    }

    moveCursor(place) {
      this.cursor = place;
      const {start, end} = this.target();
      if (place < start || place > end) this.moveTo(place - (end - start) / 2, place + (end - start) / 2);
      this.telling = this.tell(place);
      this.draw();
    }

    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.advance();
        if (!this.extent || !this.isShown()) return;
        const since = performance.now();
        this.paint(this.canvas, window.devicePixelRatio || 1);
        this.frames.push(performance.now() - since);
        if (this.frames.length > 600) this.frames.splice(0, 300);
      });
    }

    paint(canvas, ratio) {
      this.colours = this.colours || space.readColours(this.root);
      const {colours, area} = this;
      const context = axis.prepare(canvas, this.box.clientWidth, this.height, ratio);
      context.font = colours.font;
      this.paintContent(context, area, colours, ratio);
      this.paintRuler(context, area, colours);
      if (canvas === this.canvas) {
        this.strip.paint(colours, ratio);
        this.writeNote();
      }
    }

    paintRuler(context, area, colours) {
      const {start, end} = this.range;
      const {ticks} = axis.ticks(Math.max(0, start), end, area.width, 90);
      const base = area.y + area.height;
      context.fillStyle = colours.edge;
      context.fillRect(area.x, base, area.width, 1);
      context.fillStyle = colours.soft;
      context.textBaseline = 'middle';
      context.textAlign = 'center';
      for (const tick of ticks) {
        const x = area.x + this.pixelOf(tick);
        const text = axis.count(tick);
        const half = context.measureText(text).width / 2;
        if (x - half < area.x - 8) continue;
        context.fillRect(Math.round(x), base, 1, 4);
        context.fillText(text, Math.min(x, area.x + area.width + RIGHT - half - 1), base + 13);
      }
      context.textAlign = 'right';
      const {placeNoun} = this;
      context.fillText(placeNoun[0].toUpperCase() + placeNoun.slice(1), area.x - 18, base + 13);
      context.textAlign = 'left';
    }

    // A vertical line or band over places, as a selection, a cursor or a mark.
    paintBand(context, area, first, last, colour, style) {
      const from = Math.max(-4, this.pixelOf(first - 0.5));
      const to = Math.min(area.width + 4, this.pixelOf(last + 0.5));
      if (to < -2 || from > area.width + 2) return;
      if (style === 'shade') {
        context.fillStyle = colour;
        context.fillRect(area.x + from, area.y, Math.max(1, to - from), area.height);
        return;
      }
      context.strokeStyle = colour;
      context.lineWidth = style === 'cursor' ? 2 : 1.5;
      context.setLineDash(style === 'cursor' ? [] : [2, 3]);
      context.beginPath();
      for (const x of to - from > 8 ? [from, to] : [(from + to) / 2]) {
        if (x < 0 || x > area.width) continue;
        context.moveTo(Math.round(area.x + x) + 0.5, area.y);
        context.lineTo(Math.round(area.x + x) + 0.5, area.y + area.height);
      }
      context.stroke();
      context.setLineDash([]);
    }

    paintMarks(context, area, colours) {
      if (this.marked) {
        this.paintBand(context, area, this.marked.start, this.marked.end, colours.shade, 'shade');
      }
      if (this.cursor !== null) this.paintBand(context, area, this.cursor, this.cursor, colours.ink, 'cursor');
    }

    // Shows the tooltip beside a point of the canvas; rows are [swatch colour, label, ...values].
    showTooltip(title, rows, at) {
      const {tooltip} = this;
      tooltip.textContent = '';
      axis.make('div', 'chart-tooltip-title', tooltip).textContent = title;
      const table = axis.make('table', '', tooltip);
      for (const [colour, label, ...values] of rows) {
        const row = axis.make('tr', '', table);
        const head = axis.make('th', '', row);
        if (colour) axis.make('span', 'swatch', head).style.background = colour;
        head.append(label);
        for (const value of values) axis.make('td', '', row).textContent = value;
      }
      tooltip.style.display = 'block';
      const root = this.root.getBoundingClientRect();
      const box = this.canvas.getBoundingClientRect();
      const {offsetWidth, offsetHeight} = tooltip;
      const x = box.left - root.left + LEFT + at.x;
      const right = x + 14 + offsetWidth < root.width;
      tooltip.style.left = Math.max(0, right ? x + 14 : x - offsetWidth - 14) + 'px';
      const y = box.top - root.top + at.y + 12;
      const most = window.innerHeight - root.top - offsetHeight - 8;
      tooltip.style.top = Math.max(-root.top + 4, Math.min(y, most)) + 'px';
    }

    hideTooltip() {
      this.tooltip.style.display = 'none';
    }

    paintLegend(entries) {
      const key = JSON.stringify(entries);
      if (this.legendKey === key) return;
      this.legendKey = key;
      this.legend.textContent = '';
      for (const {label, colour, style} of entries) {
        const item = axis.make('span', '', this.legend);
        const swatch = axis.make('span', 'swatch' + (style ? ' is-' + style : ''), item);
        swatch.style.color = swatch.style.background = colour;
        item.append(label);
      }
      this.entries = entries;
    }

    savePicture() {
      space.savePicture(this, this.fileName, {title: this.label, axes: this.axes});
    }

    saveData() {
      space.saveTable(this.table(), this.fileName);
    }
  };
  space.LEFT = LEFT;
  space.RIGHT = RIGHT;
})();
