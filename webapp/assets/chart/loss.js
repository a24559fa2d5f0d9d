// The loss of a training over its steps, on the page Summary: a canvas that asks the server for what it can show.
(function () {
  'use strict';
  const axis = window.tilescopeAxis;
  const chart = window.tilescopeChart;
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const ROOM = {left: 64, right: 12, top: 10, bottom: 34};
  const SPACING = {across: 90, up: 34, epoch: 46};
  // What a chart that is not shown yet asks for.
  const HIDDEN_COLUMNS = 1000;
  const SIDES = ['baseline', 'candidate'];
  const HIDDEN = {display: 'none'};
  const number = new Intl.NumberFormat('en-US', {maximumSignificantDigits: 6});

  /** Ticks at 1, 2 or 5 times a power of ten between two losses, or powers of ten on a logarithmic scale. */
  function lossTicks(low, high, most, isLog) {
    const ticks = [];
    if (isLog) {
      const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
      const stride = Math.max(1, Math.ceil((last - first + 1) / most));
      for (let power = first; power <= last; power += stride) ticks.push(10 ** power);
      if (ticks.length > 1) return ticks;
      ticks.length = 0;
    }
    const rough = (high - low) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(at * step + 0);
    return ticks;
  }

  class LossPlot {
    constructor(root) {
      this.root = root;
      /** @type {any} */
      this.view = {};
      this.isLog = false;
      this.range = null;
      this.asked = '';
      root.classList.add('chart');
      const tools = axis.make('div', 'chart-tools', root);
      this.say = axis.make('span', 'loss-words', tools);
      axis.tool(tools, 'Log', 'Log scale of the loss, or a linear one', () => { this.isLog = !this.isLog; this.draw(); });
      axis.tool(tools, 'All', 'All steps', () => this.zoom(null));
      this.box = axis.make('div', 'chart-box loss-box', root);
      this.canvas = axis.make('canvas', 'chart-canvas', this.box);
      this.canvas.setAttribute('role', 'img');
      this.tooltip = axis.make('div', 'chart-tooltip', this.box);
      this.note = axis.make('div', 'chart-note', root);
      this.connect();
      new ResizeObserver(() => this.draw()).observe(this.box);
      new MutationObserver(() => this.draw()).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    connect() {
      const place = (event) => event.clientX - this.box.getBoundingClientRect().left;
      this.box.addEventListener('pointerdown', (event) => {
        if (event.button !== 0 || !this.sides.length) return;
        this.box.setPointerCapture(event.pointerId);
        this.from = place(event);
      });
      this.box.addEventListener('pointermove', (event) => {
        this.to = place(event);
        this.hover(this.to);
      });
      this.box.addEventListener('pointerup', (event) => {
        const [from, to] = [this.from, place(event)];
        this.from = undefined;
        if (from === undefined) return;
        if (Math.abs(to - from) < 5) { this.draw(); return; }
        const [start, end] = [from, to].sort((a, b) => a - b).map((x) => Math.round(this.stepAt(x)));
        if (end > start) this.zoom([start, end]);
      });
      this.box.addEventListener('pointerleave', () => { if (this.from === undefined) this.hover(null); });
      this.box.addEventListener('dblclick', () => this.zoom(null));
    }

    get sides() {
      return (this.data ? this.data.sides : []).map((side, index) => ({side, index}))
        .filter(({side}) => side && side.n_steps);
    }

    get extent() {
      if (this.range) return this.range;
      const ends = this.sides.map(({side}) => side.extent);
      const [start, end] = [Math.min(...ends.map((one) => one[0])), Math.max(...ends.map((one) => one[1]))];
      return [start, Math.max(end, start + 1)];
    }

    get width() { return Math.max(1, this.box.clientWidth - ROOM.left - ROOM.right); }

    get height() { return Math.max(1, this.box.clientHeight - ROOM.top - ROOM.bottom); }

    xOf(step) {
      const [start, end] = this.extent;
      return ROOM.left + (step - start) / (end - start) * this.width;
    }

    stepAt(x) {
      const [start, end] = this.extent;
      const part = Math.max(0, Math.min(1, (x - ROOM.left) / this.width));
      return start + part * (end - start);
    }

    zoom(range) {
      this.range = range;
      this.ask();
    }

    /** Asks for the loss of the view and its range; true if a report has any. */
    async ask() {
      const {view, range} = this;
      const query = {columns: String(this.box.clientWidth ? Math.min(4000, Math.max(100, this.width)) : HIDDEN_COLUMNS)};
      if (view.with) query.with = view.with;
      if (range) [query.start, query.end] = range.map(String);
      const asked = this.asked = JSON.stringify([view.report, query, Date.now()]);
      const path = 'training/' + encodeURIComponent(view.report) + '/loss';
      const data = await window.tilescope_text.read(await chart.ask(path, query));
      if (asked !== this.asked) return null;
      this.data = data;
      this.root.dataset.steps = String(this.sides.reduce((sum, {side}) => sum + side.n_steps, 0));
      this.draw();
      return this.sides.length > 0;
    }

    /** The lowest and highest finite loss in sight. */
    bounds() {
      const [start, end] = this.extent;
      let [low, high] = [Infinity, -Infinity];
      for (const {side} of this.sides) {
        side.loss.forEach((loss, at) => {
          if (typeof loss !== 'number' || side.place[at] < start || side.place[at] > end) return;
          if (this.isLog && loss <= 0) return;
          low = Math.min(low, loss);
          high = Math.max(high, loss);
        });
      }
      if (!(low <= high)) return this.isLog ? [0.1, 1] : [0, 1];
      if (low === high) return this.isLog ? [low / 2, high * 2] : [low - Math.abs(low) / 2 - 1e-9, high + Math.abs(high) / 2 + 1e-9];
      return [low, high];
    }

    draw() {
      if (this.frame || !this.data) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        if (this.box.offsetParent !== null && this.sides.length) this.paint();
      });
    }

    paint() {
      const style = getComputedStyle(this.root);
      const colour = (name) => style.getPropertyValue('--' + name).trim() || '#888';
      const context = axis.prepare(this.canvas, this.box.clientWidth, this.box.clientHeight, window.devicePixelRatio || 1);
      context.font = '11px ' + (style.getPropertyValue('--font').trim() || 'sans-serif');
      const [low, high] = this.bounds();
      const scale = this.isLog ? Math.log10 : (value) => value;
      const yOf = (loss) => ROOM.top + (scale(high) - scale(loss)) / (scale(high) - scale(low)) * this.height;
      this.yOf = yOf;
      const bottom = ROOM.top + this.height;
      const line = (x0, y0, x1, y1) => { context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1); context.stroke(); };
      context.lineWidth = 1;
      context.strokeStyle = colour('grid-line');
      context.fillStyle = colour('ink-soft');
      context.textAlign = 'right';
      context.textBaseline = 'middle';
      for (const tick of lossTicks(low, high, this.height / SPACING.up, this.isLog)) {
        const y = Math.round(yOf(tick)) + 0.5;
        line(ROOM.left, y, ROOM.left + this.width, y);
        context.fillText(number.format(tick), ROOM.left - 6, y);
      }
      this.paintEpochs(context, bottom, colour);
      context.textAlign = 'center';
      context.textBaseline = 'top';
      context.fillStyle = colour('ink-soft');
      const [start, end] = this.extent;
      const {step, ticks} = axis.ticks(start, end, this.width, SPACING.across);
      for (const tick of ticks) context.fillText(axis.tickLabel(tick, step), this.xOf(tick), bottom + 5);
      context.fillText('Step', ROOM.left + this.width / 2, bottom + 19);
      context.save();
      context.beginPath();
      context.rect(ROOM.left - 3, ROOM.top - 4, this.width + 6, this.height + 8);
      context.clip();
      for (const {side, index} of this.sides) this.paintSide(context, side, colour(SIDES[index]), colour('error'));
      if (this.from !== undefined) {
        context.fillStyle = colour('chart-shade');
        context.fillRect(Math.min(this.from, this.to), ROOM.top, Math.abs(this.to - this.from), this.height);
      }
      context.restore();
      this.told();
    }

    /** A line where an epoch begins, and its number where there is room. */
    paintEpochs(context, bottom, colour) {
      const [start, end] = this.extent;
      const {side} = this.sides[0];
      let free = -Infinity;
      context.textAlign = 'left';
      context.textBaseline = 'top';
      for (const [step, epoch] of side.epochs) {
        if (step < start || step > end) continue;
        const x = Math.round(this.xOf(step)) + 0.5;
        if (x - free < 6) continue;
        const hasRoom = x - free >= SPACING.epoch;
        context.strokeStyle = colour('line');
        context.setLineDash([3, 3]);
        context.beginPath();
        context.moveTo(x, ROOM.top);
        context.lineTo(x, bottom);
        context.stroke();
        context.setLineDash([]);
        if (!hasRoom) continue;
        context.fillStyle = colour('ink-faint');
        context.fillText('epoch ' + epoch, x + 3, ROOM.top);
        free = x;
      }
    }

    /** A line through the finite losses, crosses at the top for the others, dots for recorded runs. */
    paintSide(context, side, colour, error) {
      const shown = (loss) => typeof loss === 'number' && !(this.isLog && loss <= 0);
      context.strokeStyle = context.fillStyle = colour;
      context.lineWidth = 1.4;
      context.lineJoin = 'round';
      context.beginPath();
      let isDown = false;
      side.loss.forEach((loss, at) => {
        if (!shown(loss)) { isDown = false; return; }
        const [x, y] = [this.xOf(side.place[at]), this.yOf(loss)];
        if (isDown) context.lineTo(x, y);
        else context.moveTo(x, y);
        isDown = true;
      });
      context.stroke();
      const isSparse = side.loss.length < this.width / 8;
      side.loss.forEach((loss, at) => {
        const x = this.xOf(side.place[at]);
        if (typeof loss !== 'number') {
          context.strokeStyle = error;
          context.lineWidth = 1.6;
          context.beginPath();
          for (const [dx, dy] of [[-3.5, -3.5], [3.5, 3.5], [-3.5, 3.5], [3.5, -3.5]]) {
            context.moveTo(x, ROOM.top + 4);
            context.lineTo(x + dx, ROOM.top + 4 + dy);
          }
          context.stroke();
        } else if (shown(loss) && (isSparse || side.loss.length === 1)) {
          context.beginPath();
          context.arc(x, this.yOf(loss), side.run_id[at] === null ? 1.6 : 3.2, 0, 2 * Math.PI);
          context.fill();
        }
      });
    }

    /** The nearest step of every report, where the pointer is. */
    hover(x) {
      const {tooltip} = this;
      if (this.from !== undefined) this.draw();
      if (x === null || !this.sides.length) { tooltip.style.display = 'none'; return; }
      const at = this.stepAt(x);
      const lines = this.sides.map(({side, index}) => {
        let best = 0;
        side.place.forEach((place, position) => {
          if (Math.abs(place - at) < Math.abs(side.place[best] - at)) best = position;
        });
        const loss = side.loss[best];
        const run = side.run_id[best];
        return (this.sides.length > 1 ? SIDES[index] + ': ' : '') + 'step ' + axis.count(side.step[best]) + ' · epoch '
          + side.epoch[best] + ' · loss ' + (typeof loss === 'number' ? number.format(loss) : loss)
          + ' · rate ' + number.format(side.rate[best]) + (run === null ? '' : ' · run ' + run);
      });
      tooltip.textContent = '';
      lines.forEach((words) => { axis.make('div', '', tooltip).textContent = words; });
      tooltip.style.display = 'block';
      const place = x + 14 + tooltip.offsetWidth < this.box.clientWidth ? x + 14 : x - 14 - tooltip.offsetWidth;
      tooltip.style.left = Math.max(0, place) + 'px';
      tooltip.style.top = ROOM.top + 22 + 'px';
    }

    /** What the chart shows, in words. */
    told() {
      const parts = this.sides.map(({side, index}) =>
        (this.sides.length > 1 ? SIDES[index] + ': ' : '') + axis.plural(side.n_steps, 'step', 'steps') + '; ' + side.words);
      const words = parts.join(' · ');
      if (this.say.textContent !== words) this.say.textContent = words;
      this.canvas.setAttribute('aria-label', 'Loss by step. ' + words);
      const {side} = this.sides[0];
      const isThinned = this.sides.some((one) => one.side.loss.length < one.side.n_steps && !this.range);
      const notes = ['Drag to see a range'];
      if (isThinned) notes.push('extremes of neighbouring steps are drawn');
      if (this.sides.some((one) => one.side.n_not_finite)) notes.push('crosses: the loss is not finite');
      if (side.run_id.some((run) => run !== null) && !isThinned) notes.push('larger dots: steps whose run is recorded');
      const text = notes.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
      this.root.dataset.drawn = 'true';
    }
  }

  const plots = new WeakMap();

  clientside.loss = {
    // The card of the loss is there for a report with steps of a training only.
    async show(view) {
      const root = document.getElementById('summary-loss');
      if (!root || !view || !view.report || !window.tilescope.isKnown(view.report)) return HIDDEN;
      const plot = plots.get(root) || new LossPlot(root);
      plots.set(root, plot);
      const key = view.report + ' ' + (view.with || '');
      if (plot.key !== key) plot.range = null;
      plot.key = key;
      plot.view = view;
      try {
        const has = await plot.ask();
        if (has === null) return clientside.no_update;
        if (has) setTimeout(() => plot.draw(), 0);
        return has ? {} : HIDDEN;
      } catch {
        return HIDDEN;  // the page itself reports it
      }
    },
  };
})();
