// Memory of a tile over time: every part of a variable a rectangle, from birth to death at its
// address. What is grey is free, below something that lives.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const axis = window.tilescopeAxis;
  const bytes = (size) => /** @type {string} */ (window.tilescopeFormats.tilescopeBytes(size));
  const address = (at) => '0x' + Math.round(at).toString(16);
  const LABEL_WIDTH = 90;
  const LABEL_HEIGHT = 14;
  const SIDES = ['Baseline', 'Candidate'];

  space.unpackLives = (buffer) => {
    const {header, take} = space.header(buffer);
    const {n_blocks: n, n_heights: m} = header;
    const [offset, size, top] = [take(Float64Array, n), take(Float64Array, n), take(Float64Array, m)];
    const [start, end, name, category] = [1, 2, 3, 4].map(() => take(Int32Array, n));
    const step = take(Int32Array, m);
    const [own, other] = [take(Int32Array, header.n_own_places), take(Int32Array, header.n_other_places)];
    const found = {...header, offset, size, name, category, first: start, last: end, own, other};
    if (!own.length) return {...found, n_places: header.n_steps, start, end, heights: {step, top}};
    // Of two reports, steps stand where both sides have them; what lives, lives up to the next own step.
    const n_places = 1 + Math.max(own[own.length - 1], other.length ? other[other.length - 1] : 0);
    const placed = (steps) => steps.map((one) => one < own.length ? own[one] : n_places);
    return {...found, n_places, start: placed(start), end: placed(end), heights: {step: placed(step), top}};
  };

  // The steps of both sides at a place, as text.
  space.stepText = ({own, other, side}, place) => {
    if (!own.length) return 'Step ' + axis.count(place);
    const names = side ? ['candidate', 'baseline'] : ['baseline', 'candidate'];
    const texts = [own, other].map((places, which) => {
      const at = space.indexOf(places, place);
      return names[which] + (at < 0 ? ' has none' : ' step ' + axis.count(at));
    });
    return 'Place ' + axis.count(place) + ' (' + texts.join(', ') + ')';
  };

  // The block that lives at a step and holds an address; -1 if there is none.
  space.blockAt = ({offset, size, start, end}, step, at) => {
    for (let i = 0; i < offset.length; i += 1) {
      if (start[i] <= step && step < end[i] && offset[i] <= at && at < offset[i] + size[i]) return i;
    }
    return -1;
  };

  // The free bytes around an address at a step, and the blocks that bound them; -1 for none.
  space.gapAt = ({offset, size, start, end}, step, at) => {
    let [below, above] = [-1, -1];
    for (let i = 0; i < offset.length; i += 1) {
      if (start[i] > step || step >= end[i]) continue;
      const last = offset[i] + size[i];
      if (last <= at && (below < 0 || last > offset[below] + size[below])) below = i;
      if (offset[i] > at && (above < 0 || offset[i] < offset[above])) above = i;
    }
    const from = below < 0 ? 0 : offset[below] + size[below];
    return {from, to: above < 0 ? Infinity : offset[above], below, above};
  };

  // `pick` selects a variable by its name.
  space.LivesPlot = class LivesPlot extends space.Frame {
    constructor(root, options) {
      super(root, options);
      this.options = options;
      this.data = null;
      this.low = 0;
      this.high = 0;
      this.row = -1;
      this.title = axis.make('span', 'chart-side chart-side-' + options.side);
      this.tools.prepend(this.title);
      this.box.addEventListener('wheel', (event) => {
        const box = this.canvas.getBoundingClientRect();
        const isGutter = event.clientX - box.left < space.LEFT;
        if (!this.data || !(event.ctrlKey || isGutter)) return;
        event.preventDefault();
        event.stopImmediatePropagation();
        const {y, height} = this.area;
        const part = 1 - (event.clientY - box.top - y) / height;
        this.zoomAddress(Math.exp(Math.max(-240, Math.min(240, event.deltaY)) / 480), part);
      }, {passive: false, capture: true});
    }

    viewChanged(before) {
      const {view, options: {side}} = this;
      const [tile] = space.ranges(view.tiles);
      this.path = 'memory/' + encodeURIComponent(view.report) + '/lives';
      this.query = {...(tile ? {tile: tile[0]} : {}), ...(view.with ? {with: view.with, side} : {})};
      this.title.textContent = view.with ? SIDES[side] : '';
      this.noun = view.with ? 'place' : 'step';
      const asked = JSON.stringify([this.path, this.query]);
      if (this.data && (view.y || '') !== (before.y || '')) this.setAddresses(view.y || '');
      if (asked === this.asked) return;
      this.asked = asked;
      this.failed = '';
      this.cursor = null;
      if (!this.extent) this.say('Reading the report …');
    }

    request() {
      return space.answer(this, async () => {
        const answer = await space.ask(this.path, this.query);
        return {...space.unpackLives(await answer.arrayBuffer()), side: this.options.side};
      });
    }

    take(data) {
      this.data = data;
      this.setExtent(data.n_places);
      this.setAddresses(this.view.y || '');
      this.strip.forget();
      this.say('');
      this.root.dataset.drawn = String(data.n_blocks);
      this.draw();
    }

    // The highest address that can be shown.
    get top() {
      const {data} = this;
      const highest = Math.max(1, data.highest_bytes);
      const isNear = this.view.max === '1' || 2 * highest >= data.capacity_bytes;
      return 1.04 * Math.max(highest, isNear ? data.capacity_bytes : 0);
    }

    setAddresses(text) {
      const found = /^(\d+):(\d+)$/.exec(text);
      const isRange = found && Number(found[1]) < Number(found[2]);
      [this.low, this.high] = isRange ? [Number(found[1]), Number(found[2])] : [0, this.top];
    }

    zoomAddress(factor, part) {
      const span = Math.max(64, Math.min(this.top, (this.high - this.low) * factor));
      const at = this.low + (this.high - this.low) * part;
      this.low = Math.max(0, Math.min(at - span * part, this.top - span));
      this.high = this.low + span;
      this.hover(null);
      this.draw();
      this.changed();
    }

    showAll() {
      if (this.data) [this.low, this.high] = [0, this.top];
      super.showAll();
    }

    dragBegun() {
      return [this.low, this.high];
    }

    dragged([low, high], down) {
      const by = Math.max(-low, Math.min(down / this.area.height * (high - low), this.top - high));
      this.low = low + by;
      this.high = high + by;
      this.draw();
    }

    addressText() {
      const isAll = !this.data || this.low <= 0 && this.high >= this.top - 1;
      return isAll ? '' : Math.round(this.low) + ':' + Math.round(this.high);
    }

    state() {
      return {...super.state(), y: this.addressText()};
    }

    yOf(at) {
      const {y, height} = this.area;
      return y + height * (1 - (at - this.low) / (this.high - this.low));
    }

    // A flag for every name: whether the filter of the variables finds it.
    matches() {
      const words = window.tilescope_search.words(this.view.name || '');
      return words.length ? this.data.names.map((name) => window.tilescope_search.fit(words, name)) : null;
    }

    paintContent(context, area, colours, ratio) {
      const {data} = this;
      if (!data) return;
      this.paintAddresses(context, area, colours);
      context.save();
      context.beginPath();
      context.rect(area.x, area.y, area.width, area.height);
      context.clip();
      const snap = (pixel) => Math.round(pixel * ratio) / ratio;
      this.paintFree(context, area, colours, snap);
      const matches = this.matches();
      const labels = [];
      for (let i = 0; i < data.n_blocks; i += 1) {
        const x0 = snap(Math.max(-4, this.pixelOf(data.start[i] - 0.5)));
        const x1 = snap(Math.min(area.width + 4, this.pixelOf(data.end[i] - 0.5)));
        if (x1 < 0 || x0 > area.width) continue;
        const y0 = snap(this.yOf(data.offset[i] + data.size[i]));
        const y1 = snap(this.yOf(data.offset[i]));
        if (y1 < area.y || y0 > area.y + area.height) continue;
        const [width, height] = [Math.max(1 / ratio, x1 - x0), Math.max(1 / ratio, y1 - y0)];
        const isFaded = matches && !matches[data.name[i]];
        context.globalAlpha = isFaded ? 0.25 : 1;
        context.fillStyle = data.categories[data.category[i]].colour;
        context.fillRect(area.x + x0, y0, width > 4 ? width - 1 : width, height > 4 ? height - 1 : height);
        if (data.names[data.name[i]] === this.view.var) {
          context.strokeStyle = colours.ink;
          context.lineWidth = 2;
          context.strokeRect(area.x + x0 + 1, y0 + 1, Math.max(1, width - 3), Math.max(1, height - 3));
        }
        if (width > LABEL_WIDTH && height > LABEL_HEIGHT && !isFaded) {
          const [from, to] = [Math.max(0, x0), Math.min(area.width, x1)];
          const middle = (Math.max(y0, area.y) + Math.min(y1, area.y + area.height)) / 2;
          if (to - from > LABEL_WIDTH) labels.push([data.names[data.name[i]], area.x + from, to - from, middle]);
        }
      }
      context.globalAlpha = 1;
      for (const label of labels) this.paintName(context, colours, ...label);
      this.paintLimits(context, area, colours);
      this.paintMarks(context, area, colours);
      if (this.cursor !== null && this.row >= 0) this.paintRow(context, area, colours);
      context.restore();
      const used = [...new Set(data.category)].sort((a, b) => a - b);
      this.paintLegend([
        ...used.map((row) => data.categories[row]), {label: 'Free, below something that lives', colour: colours.gap},
      ]);
    }

    paintAddresses(context, area, colours) {
      context.textBaseline = 'middle';
      context.textAlign = 'right';
      const span = this.high - this.low;
      const [, step = span] = axis.byteTicks(span, Math.max(2, area.height / 60));
      for (let tick = Math.ceil(this.low / step) * step; tick <= this.high; tick += step) {
        const y = Math.round(this.yOf(tick));
        context.fillStyle = colours.line;
        context.fillRect(area.x, y, area.width, 1);
        context.fillStyle = colours.soft;
        context.fillText(tick ? bytes(tick).replace('.0 ', ' ') : '0', area.x - 8, y);
      }
      context.textAlign = 'left';
    }

    // All that lies below the highest address in use; blocks are painted over it.
    paintFree(context, area, colours, snap) {
      const {step, top} = this.data.heights;
      context.fillStyle = colours.gap;
      for (let i = 0; i < step.length; i += 1) {
        const x0 = Math.max(0, snap(this.pixelOf(step[i] - 0.5)));
        const x1 = Math.min(area.width, i + 1 < step.length ? snap(this.pixelOf(step[i + 1] - 0.5)) : area.width);
        if (x1 < 0 || x0 > area.width) continue;
        const y = this.yOf(top[i]);
        context.fillRect(area.x + x0, y, x1 - x0, this.yOf(0) - y);
      }
    }

    paintName(context, colours, name, x, room, y) {
      let text = name;
      while (text.length > 3 && context.measureText(text).width > room - 14) {
        text = '…' + text.slice(Math.max(2, Math.ceil(text.length / 12)));
      }
      const width = context.measureText(text).width;
      context.globalAlpha = 0.85;
      context.fillStyle = colours.surface;
      context.fillRect(x + 4, y - 7, width + 6, 14);
      context.globalAlpha = 1;
      context.fillStyle = colours.ink;
      context.textBaseline = 'middle';
      context.fillText(text, x + 7, y + 0.5);
    }

    paintLimits(context, area, colours) {
      const {capacity_bytes: capacity, non_interleaved_bytes: plain} = this.data;
      const lines = [[plain, 'interleaved memory above', colours.soft, [2, 3]],
        [capacity, 'capacity ' + bytes(capacity), colours.capacity, [6, 4]]];
      for (const [at, text, colour, dash] of lines) {
        if (at < this.low || at > this.high) continue;
        const y = Math.round(this.yOf(at)) + 0.5;
        context.strokeStyle = colour;
        context.lineWidth = 1.4;
        context.setLineDash(dash);
        context.beginPath();
        context.moveTo(area.x, y);
        context.lineTo(area.x + area.width, y);
        context.stroke();
        context.setLineDash([]);
        const width = context.measureText(text).width;
        const base = y - 16 < area.y ? y + 17 : y;
        context.globalAlpha = 0.85;
        context.fillStyle = colours.surface;
        context.fillRect(area.x + area.width - width - 8, base - 16, width + 8, 14);
        context.globalAlpha = 1;
        context.fillStyle = colour;
        context.textBaseline = 'middle';
        context.fillText(text, area.x + area.width - width - 4, base - 8.5);
      }
    }

    paintRow(context, area, colours) {
      const {data, row} = this;
      const x0 = Math.max(0, this.pixelOf(data.start[row] - 0.5));
      const x1 = Math.min(area.width, this.pixelOf(data.end[row] - 0.5));
      const [y0, y1] = [this.yOf(data.offset[row] + data.size[row]), this.yOf(data.offset[row])];
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.strokeRect(area.x + x0, y0, Math.max(2, x1 - x0), Math.max(2, y1 - y0));
    }

    paintWhole(context, width, height, colours) {
      const {data} = this;
      if (!data) return;
      const {step, top} = data.heights;
      const most = this.top;
      context.fillStyle = colours.accent;
      for (let i = 0; i < step.length; i += 1) {
        const x0 = step[i] / data.n_places * width;
        const x1 = (i + 1 < step.length ? step[i + 1] : data.n_places) / data.n_places * width;
        const tall = (height - 3) * top[i] / most;
        context.fillRect(x0, height - 1 - tall, Math.max(0.5, x1 - x0), tall);
      }
    }

    writeNote() {
      const {data} = this;
      if (!data) return;
      const parts = ['Tile ' + axis.count(data.tile_id) + (this.query.tile === undefined ? ', the fullest' : '')
        + ': ' + axis.plural(data.n_blocks, 'block', 'blocks')];
      if (data.unplaced_bytes) {
        parts.push(bytes(data.unplaced_bytes) + ' of code and state are not drawn: the report lacks their addresses');
      }
      const matches = this.matches();
      if (matches) parts.push(axis.count(matches.filter(Boolean).length) + ' variables match');
      if (this.view.with) parts.push('steps that both reports have stand one above the other');
      parts.push('wheel over the addresses zooms them');
      const text = parts.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
    }

    lifeOf(block) {
      const {data} = this;
      const [start, end] = [data.first[block], data.last[block]];
      if (start === 0 && end === data.n_steps) return 'always live';
      return 'steps ' + axis.count(start) + ' to ' + axis.count(end - 1);
    }

    rowsOf(block) {
      const {data} = this;
      const kind = data.categories[data.category[block]];
      return [
        [kind.colour, kind.label, bytes(data.size[block]), axis.count(data.size[block]) + ' B'],
        ['', 'Address', address(data.offset[block]), 'to ' + address(data.offset[block] + data.size[block])],
        ['', 'Lives', this.lifeOf(block)],
      ];
    }

    rowsOfGap({to, below, above}) {
      const named = (block) => block < 0 ? '–' : this.data.names[this.data.name[block]];
      const rows = [['', 'Below', named(below)]];
      if (to !== Infinity) rows.push(['', 'Above', named(above)], ['', 'Above lives', this.lifeOf(above)]);
      return rows;
    }

    hover(at) {
      this.last = at || this.last;
      const {data} = this;
      if (!at || !data || at.x > this.width || this.goal) { this.hideTooltip(); return; }
      const {y, height} = this.area;
      if (at.y < y || at.y > y + height) { this.hideTooltip(); return; }
      const step = Math.max(0, Math.min(data.n_places - 1, Math.round(this.positionAt(at.x))));
      const place = this.low + (this.high - this.low) * (1 - (at.y - y) / height);
      const block = space.blockAt(data, step, place);
      if (block >= 0) {
        this.showTooltip(data.names[data.name[block]], this.rowsOf(block), at);
        return;
      }
      const gap = space.gapAt(data, step, place);
      const end = gap.to === Infinity ? data.capacity_bytes : gap.to;
      if (end <= gap.from) { this.hideTooltip(); return; }
      const title = (gap.to === Infinity ? 'Free to the capacity: ' : 'Gap: ') + bytes(end - gap.from)
        + ' at ' + address(gap.from) + ', ' + space.stepText(data, step).toLowerCase();
      this.showTooltip(title, this.rowsOfGap(gap), at);
    }

    click(at) {
      const {data} = this;
      if (!data) return;
      this.box.focus({preventScroll: true});
      const {y, height} = this.area;
      const step = Math.round(this.positionAt(at.x));
      const place = this.low + (this.high - this.low) * (1 - (at.y - y) / height);
      this.choose(space.blockAt(data, step, place));
    }

    choose(block) {
      const {data} = this;
      const isVariable = block >= 0 && !(data.first[block] === 0 && data.category[block] === 0
        && data.names[data.name[block]] === data.categories[0].label);
      this.options.pick(isVariable ? data.names[data.name[block]] : '');
    }

    // Blocks that live at a step, by address.
    liveAt(step) {
      const {start, end, offset} = this.data;
      const live = [];
      for (let i = 0; i < offset.length; i += 1) if (start[i] <= step && step < end[i]) live.push(i);
      return live.sort((a, b) => offset[a] - offset[b]);
    }

    press(event) {
      const by = {ArrowUp: 1, ArrowDown: -1}[event.key];
      if (by && this.data) {
        event.preventDefault();
        if (this.cursor === null) this.cursor = Math.max(0, Math.round((this.range.start + this.range.end) / 2));
        const live = this.liveAt(this.cursor);
        const at = live.indexOf(this.row);
        this.row = live.length ? live[Math.max(0, Math.min(live.length - 1, at + by))] : -1;
        this.tell(this.cursor);
        this.draw();
        return true;
      }
      return super.press(event);
    }

    tell(step) {
      const live = this.liveAt(step);
      if (!live.includes(this.row)) this.row = live.length ? live[0] : -1;
      this.box.setAttribute('aria-valuenow', String(step));
      const {data, row} = this;
      const where = space.stepText(data, step);
      if (row < 0) {
        this.box.setAttribute('aria-valuetext', where + ': nothing lives');
        this.hideTooltip();
        return;
      }
      const name = data.names[data.name[row]];
      const rows = this.rowsOf(row);
      this.box.setAttribute('aria-valuetext', where + ', '
        + axis.plural(live.length, 'block', 'blocks') + ': ' + name + ', '
        + rows.map(([, label, ...values]) => label + ' ' + values.join(' ')).join('; '));
      this.showTooltip(name, rows, {x: this.pixelOf(step), y: 20});
    }

    pick(place) {
      if (place === null) this.options.pick('');
      else if (this.row >= 0) this.choose(this.row);
    }

    selectedRange() {
      const {data} = this;
      let found = null;
      for (let i = 0; data && i < data.n_blocks; i += 1) {
        if (data.names[data.name[i]] !== this.view.var) continue;
        const [start, end] = [data.start[i], data.end[i] - 1];
        found = found ? {start: Math.min(found.start, start), end: Math.max(found.end, end)} : {start, end};
      }
      return found;
    }

    cursorStart() {
      return null;
    }

    table() {
      const {data} = this;
      return {
        columns: ['name', 'category', 'offset (bytes)', 'size (bytes)', 'first step', 'end step'],
        rows: Array.from(data.offset, (offset, i) => [
          data.names[data.name[i]], data.categories[data.category[i]].label, offset, data.size[i],
          data.first[i], data.last[i],
        ]),
      };
    }
  };
})();
