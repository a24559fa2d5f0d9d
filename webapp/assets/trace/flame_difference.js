// The difference flame: cycles of two reports by the path of step names, coloured by their change.
// A row is as wide as the larger side of its steps; a click makes it the root, which the address holds.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const ROW = 22;
  const TEXT_FROM = 44;
  const SHADES = 4;

  /** Shade of a change from -SHADES (fewer) to SHADES (more), by its part of what the row cost. */
  space.flameShade = (row) => {
    const {baseline_cycles: before, candidate_cycles: after} = row;
    if (before === after) return 0;
    const part = (after - before) / Math.max(before, after);
    return Math.sign(part) * Math.max(1, Math.ceil(Math.abs(part) * SHADES - 1e-9));
  };

  space.signed = (value) => (value > 0 ? '+' : value < 0 ? '−' : '±') + space.count(Math.abs(value));

  /** Change in percent of the baseline as text; words where one side has nothing. */
  space.changeText = (row) => {
    if (row.verdict === 'added' || row.verdict === 'removed') return row.verdict;
    if (!row.baseline_cycles) return space.signed(row.delta_cycles);
    const percent = 100 * row.delta_cycles / row.baseline_cycles;
    const digits = Math.abs(percent) < 10 ? 1 : 0;
    const text = Math.abs(percent).toFixed(digits);
    if (!row.delta_cycles) return 'no change';
    if (!Number(text)) return (percent > 0 ? '< +0.1' : '> −0.1') + ' %';
    return (percent > 0 ? '+' : '−') + text + ' %';
  };

  class FlameDifference {
    constructor(root) {
      this.root = root;
      root.textContent = '';
      this.trail = space.make('div', 'flame-trail', root);
      this.box = space.make('div', 'flame-box', root);
      this.box.tabIndex = 0;
      this.box.setAttribute('role', 'application');
      this.box.setAttribute('aria-label', 'Difference flame. Arrow keys select a row, Enter makes it the'
        + ' root, Backspace goes up. The table of top contributors below holds the same figures as text.');
      this.canvas = space.make('canvas', 'trace-canvas', this.box);
      this.tooltip = space.make('div', 'trace-tooltip', root);
      this.note = space.make('div', 'trace-note flame-note', root);
      this.note.setAttribute('role', 'status');
      this.legend = space.make('div', 'trace-legend flame-legend', root);
      this.message = space.make('div', 'trace-message', root);
      this.key = '';
      this.rows = [];
      this.above = [];
      this.places = [];
      this.chosen = 0;
      this.connect();
      new ResizeObserver(() => this.draw()).observe(this.box);
      new MutationObserver(() => { this.colours = null; this.draw(); }).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    async show(view) {
      const key = [view.report, view.with, view.node || ''].join('\n');
      if (key === this.key) { this.draw(); return; }
      this.key = key;
      const query = new URLSearchParams({
        node: view.node || '', width: String(Math.max(200, this.box.clientWidth || 1200)),
      });
      const pair = view.report + ' ' + view.with;
      if (pair !== this.pair) this.say('Comparing the two traces …');
      this.pair = pair;
      const url = '/api/trace-pair/' + encodeURIComponent(view.report) + '/' + encodeURIComponent(view.with)
        + '/flame?' + query;
      try {
        const response = await fetch(url, {credentials: 'same-origin'});
        const answer = await window.tilescope_text.read(response);
        if (key !== this.key) return;
        if (!response.ok) throw new Error(answer.message);
        this.take(answer);
        this.say('');
      } catch (error) {
        if (key !== this.key) return;
        this.key = '';
        this.say(error.message, true);
      }
    }

    take(answer) {
      this.above = answer.above;
      this.rows = answer.rows;
      this.basis = answer.basis;
      this.runs = answer.n_runs;
      this.chosen = 0;
      this.deepest = Math.max(...this.rows.map((row) => row.depth)) - this.rows[0].depth;
      this.paintTrail();
      this.paintLegend();
      this.draw();
    }

    paintTrail() {
      this.trail.textContent = '';
      const levels = [...this.above, this.rows[0]];
      levels.forEach((row, index) => {
        if (index) this.trail.append(' / ');
        const label = row.row === 0 ? 'All steps' : row.label;
        if (index === levels.length - 1) {
          space.make('strong', '', this.trail).textContent = label;
          return;
        }
        const button = space.make('button', 'flame-level', this.trail);
        button.type = 'button';
        button.textContent = label;
        button.addEventListener('click', () => this.goTo(row.name));
      });
    }

    goTo(name) {
      window.tilescope.changeView({node: name}, true);
    }

    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
    }

    paint() {
      const width = this.box.clientWidth;
      if (!width || !this.rows.length || this.root.offsetParent === null) return;
      this.colours = this.colours || this.readColours();
      const {colours} = this;
      const ratio = window.devicePixelRatio || 1;
      const [root] = this.rows;
      const height = (this.deepest + 1) * ROW + 2;
      this.box.style.height = height + 'px';
      const context = space.prepare(this.canvas, width, height, ratio);
      context.font = colours.font;
      context.textBaseline = 'middle';
      this.places = this.rows.map((row) => {
        const whole = root.width_cycles || 1;
        return {
          x: (row.offset_cycles - root.offset_cycles) / whole * width,
          y: (row.depth - root.depth) * ROW + 1,
          width: row.width_cycles / whole * width,
        };
      });
      this.rows.forEach((row, index) => {
        const place = this.places[index];
        if (place.width < 0.3) return;
        this.paintRow(context, row, place, index === this.chosen);
      });
      if (!this.firstPaint) {
        this.firstPaint = performance.now();
        performance.mark('flame-first-paint');
      }
      this.writeNote();
    }

    paintRow(context, row, place, isChosen) {
      const {colours} = this;
      const shade = space.flameShade(row);
      const width = place.width > 3 ? place.width - 1 : Math.max(place.width, 0.5);
      context.fillStyle = colours.shades[shade + SHADES];
      context.fillRect(place.x, place.y, width, ROW - 2);
      const isAlone = row.verdict === 'added' || row.verdict === 'removed';
      if (isAlone && width > 4) this.hatch(context, place, width);
      if (isChosen) {
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.strokeRect(place.x + 1, place.y + 1, Math.max(2, width - 2), ROW - 4);
      }
      if (width < TEXT_FROM) return;
      context.fillStyle = colours.onShades[shade + SHADES];
      const label = row.row === 0 ? 'All steps' : row.label || '(no name)';
      const change = space.changeText(row);
      const room = width - 10;
      const full = label + '  ' + change;
      const text = context.measureText(full).width <= room ? full : label;
      const shown = space.labelText(text, '', space.ALONE, room, (part) => context.measureText(part).width);
      context.fillText(shown, place.x + 5, place.y + (ROW - 2) / 2 + 0.5);
    }

    hatch(context, place, width) {
      context.save();
      context.beginPath();
      context.rect(place.x, place.y, width, ROW - 2);
      context.clip();
      context.strokeStyle = this.colours.hatch;
      context.lineWidth = 1;
      context.beginPath();
      for (let x = place.x - ROW; x < place.x + width; x += 6) {
        context.moveTo(x, place.y + ROW);
        context.lineTo(x + ROW, place.y);
      }
      context.stroke();
      context.restore();
    }

    readColours() {
      const style = getComputedStyle(this.root);
      const value = (name) => style.getPropertyValue('--flame-' + name).trim() || '#888';
      const names = [];
      for (let shade = -SHADES; shade <= SHADES; shade += 1) {
        names.push(shade ? (shade < 0 ? 'less-' : 'more-') + Math.abs(shade) : 'same');
      }
      return {
        shades: names.map(value), onShades: names.map((name) => value('on-' + name)),
        ink: value('ink'), hatch: value('hatch'),
        font: '11px ' + (style.getPropertyValue('--font').trim() || 'sans-serif'),
      };
    }

    writeNote() {
      const row = this.rows[this.chosen];
      const parts = [
        row.row === 0 ? 'All steps' : row.name,
        'baseline ' + space.plural(row.baseline_cycles, 'cycle', 'cycles'),
        'candidate ' + space.count(row.candidate_cycles),
        'change ' + (row.delta_cycles ? space.signed(row.delta_cycles) : '0')
          + (row.baseline_cycles && row.delta_cycles ? ' (' + space.changeText(row) + ')' : ''),
      ];
      if (row.row === 0) {
        parts.push(this.basis === 'runs' ? 'on the critical path, of one run'
          + (this.runs[0] === this.runs[1] ? '' : ' (' + this.runs.join(' and ') + ')')
          : 'one execution of every step: a report has no run');
      }
      const text = parts.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
    }

    paintLegend() {
      this.legend.textContent = '';
      const add = (className, text) => {
        const item = space.make('span', 'trace-legend-item', this.legend);
        space.make('span', 'trace-swatch ' + className, item);
        item.append(text);
      };
      add('flame-swatch-less', 'fewer cycles in the candidate (−)');
      add('flame-swatch-same', 'no change');
      add('flame-swatch-more', 'more cycles in the candidate (+)');
      add('flame-swatch-alone', 'hatched: only in one report');
    }

    at(x, y) {
      return this.places.findIndex((place) => x >= place.x && x < place.x + Math.max(1, place.width)
        && y >= place.y && y < place.y + ROW);
    }

    connect() {
      const {box} = this;
      const find = (event) => {
        const area = this.canvas.getBoundingClientRect();
        return this.at(event.clientX - area.left, event.clientY - area.top);
      };
      box.addEventListener('pointermove', (event) => this.hover(find(event), event));
      box.addEventListener('pointerleave', () => this.hover(-1));
      box.addEventListener('click', (event) => {
        const index = find(event);
        if (index < 0) return;
        this.choose(index);
        if (index === 0) this.up();
        else if (this.hasBelow(index)) this.goTo(this.rows[index].name);
      });
      box.addEventListener('keydown', (event) => {
        const act = {
          ArrowUp: () => this.move(0, -1), ArrowDown: () => this.move(0, 1),
          ArrowLeft: () => this.move(-1, 0), ArrowRight: () => this.move(1, 0),
          Enter: () => { if (this.chosen) this.goTo(this.rows[this.chosen].name); },
          Backspace: () => this.up(),
        }[event.key];
        if (!act || !this.rows.length) return;
        event.preventDefault();
        event.stopPropagation();
        act();
      });
    }

    hasBelow(index) {
      const {row} = this.rows[index];
      return this.rows.some((one) => one.parent === row);
    }

    up() {
      if (this.above.length) this.goTo(this.above[this.above.length - 1].name);
    }

    // Selects the row around, the first one below, or the next one of the same level.
    move(sideways, down) {
      const chosen = this.rows[this.chosen];
      let next;
      if (down > 0) next = this.rows.findIndex((row) => row.parent === chosen.row);
      else if (down < 0) next = this.rows.findIndex((row) => row.row === chosen.parent);
      else {
        const level = this.rows.map((row, index) => ({row, index}))
          .filter(({row}) => row.depth === chosen.depth)
          .sort((a, b) => a.row.offset_cycles - b.row.offset_cycles);
        const place = level.findIndex(({index}) => index === this.chosen) + sideways;
        next = level[place] ? level[place].index : -1;
      }
      if (next >= 0) this.choose(next);
    }

    choose(index) {
      this.chosen = index;
      this.draw();
    }

    hover(index, event) {
      if (index < 0) { this.tooltip.style.display = 'none'; return; }
      const row = this.rows[index];
      this.tooltip.textContent = '';
      const line = (className, text) => { space.make('div', className, this.tooltip).textContent = text; };
      line('trace-tooltip-title', row.row === 0 ? 'All steps' : row.name);
      line('', 'Baseline ' + space.plural(row.baseline_cycles, 'cycle', 'cycles')
        + ', candidate ' + space.count(row.candidate_cycles));
      line('', 'Change ' + (row.delta_cycles ? space.signed(row.delta_cycles) : '0') + ' · ' + space.changeText(row));
      this.tooltip.style.display = 'block';
      const root = this.root.getBoundingClientRect();
      const x = event.clientX - root.left + 14;
      this.tooltip.style.left = Math.max(0, Math.min(x, root.width - this.tooltip.offsetWidth - 4)) + 'px';
      this.tooltip.style.top = event.clientY - root.top + 16 + 'px';
    }

    say(text, isError) {
      this.message.textContent = text;
      this.message.className = 'trace-message' + (isError ? ' is-error' : '');
      this.root.classList.toggle('is-empty', text !== '');
    }
  }

  /** @type {FlameDifference | null} */
  let flame = null;
  // The flame in its element; made anew if the page was.
  space.differenceIn = (root) => {
    if (!flame || flame.root !== root) flame = new FlameDifference(root);
    return flame;
  };
})();
