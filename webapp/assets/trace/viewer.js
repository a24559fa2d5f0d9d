// The execution trace: what is seen, what is asked for, what is drawn. The page's address holds
// the state; `show` follows it, `changed` writes it once motion has stopped.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || {};
  const clientside = window.dash_clientside = window.dash_clientside || {};
  const GUTTER = 74;
  const SHORTEST = 8;
  const QUIET_MS = 220;
  const MOVE_MS = 130;

  function make(tag, className, parent) {
    const element = document.createElement(tag);
    element.className = className;
    if (parent) parent.append(element);
    return element;
  }

  class Viewer {
    constructor(root) {
      this.root = root;
      root.textContent = '';
      this.overviewBox = make('div', 'trace-overview', root);
      this.scroller = make('div', 'trace-scroller', root);
      this.scroller.tabIndex = 0;
      this.scroller.setAttribute('role', 'application');
      this.scroller.setAttribute('aria-label',
        'Execution trace. W and S zoom, A and D pan, F focuses the selection, 0 shows everything.'
        + ' The table of top contributors below holds the same figures as text.');
      this.sticky = make('div', 'trace-sticky', this.scroller);
      this.canvas = make('canvas', 'trace-canvas', this.sticky);
      this.spacer = make('div', 'trace-spacer', this.scroller);
      this.tooltip = make('div', 'trace-tooltip', root);
      this.message = make('div', 'trace-message', root);
      this.note = make('div', 'trace-note', root);
      this.note.setAttribute('role', 'status');
      this.legend = make('div', 'trace-legend', root);
      this.overview = new space.Overview(this.overviewBox, this);
      this.kinds = [];
      this.range = {start: 0, end: 1};
      this.state = {view: 'flame', ipus: null, closed: new Set(), find: '', at: '', mark: null};
      this.frames = [];
      this.address = {};
      this.reset(null);
      space.connectInput(this);
      new ResizeObserver(() => { this.arrange(); this.draw(); this.request(); }).observe(this.scroller);
      new MutationObserver(() => { this.colours = null; this.draw(); }).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    reset(report) {
      this.report = report;
      this.source = report === null ? null
        : space.early && space.early.report === report ? space.early.source : new space.Source(report);
      this.extent = null;
      this.groups = [];
      this.data = new Map();
      this.whole = new Map();
      this.matches = null;
      this.selected = null;
      this.asked = 0;
      this.inFlight = false;
      this.failed = '';
    }

    isShown() {
      return this.root.offsetParent !== null;
    }

    // --- state -----------------------------------------------------------------------------

    // Follows the address; `view` holds strings. Only what differs from the last address counts:
    // what is seen may be ahead of it.
    async show(view) {
      if (!view || !view.report) {
        this.say('No report is loaded. Choose one at the top, or make one: tilescope run MODEL.onnx');
        return;
      }
      const before = view.report === this.report ? this.address : {};
      this.address = {...view};
      const changed = (name) => (view[name] || '') !== (before[name] || '');
      if (view.report !== this.report) {
        this.reset(view.report);
        this.apply(view, () => true);
        this.say('Reading the trace …');
        await this.open(view);
        return;
      }
      this.apply(view, changed);
      if (this.extent) {
        if (changed('range')) this.follow(view);
        this.arrange();
        this.draw();
        this.request();
      }
    }

    apply(view, changed) {
      const list = (text) => (text || '').split(',').flatMap((part) => {
        const [, low, high] = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(part) || [];
        if (low === undefined) return [];
        const last = Math.min(Number(high ?? low), Number(low) + 5000);
        return Array.from({length: Math.max(0, last - low + 1)}, (_, i) => Number(low) + i);
      });
      const state = this.state;
      if (changed('view')) {
        state.view = view.view === 'flat' ? 'flat' : 'flame';
        this.data.clear();
        this.whole.clear();
      }
      if (changed('ipus')) state.ipus = (view.ipus || '').trim() ? new Set(list(view.ipus)) : null;
      if (changed('closed')) state.closed = new Set(list(view.closed));
      if (changed('find')) {
        state.find = view.find || '';
        this.updateMatches();
        this.countMatches();
      }
      if (changed('mark')) {
        const mark = /^(-?\d+):(-?\d+)$/.exec(view.mark || '');
        state.mark = mark ? {start: Number(mark[1]), end: Number(mark[2])} : null;
      }
      if (changed('at') && state.at !== (view.at || '')) {
        state.at = view.at || '';
        this.loadSelected();
      }
    }

    async open(view) {
      const source = this.source;
      try {
        const early = space.early && space.early.source === source ? space.early : null;
        const names = early ? early.names : source.loadNames();
        const extent = await (early ? early.extent : source.json('extent'));
        if (source !== this.source) return;
        this.kinds = extent.kinds;
        this.hertz = extent.clock_hz;
        this.paintLegend();
        if (!extent.tracks.length || extent.end_cycle <= extent.start_cycle) {
          names.catch(() => {});
          this.say('This report holds no execution: nothing ran, or running was not recorded.'
            + ' Run the model with execution profiling on.');
          return;
        }
        this.extent = {start: extent.start_cycle, end: extent.end_cycle};
        this.tracks = extent.tracks;
        this.range = {...this.extent};
        this.follow(view);
        this.say('');
        if (early && early.answer) this.take(early.answer, [], view.view);
        space.early = null;
        this.arrange();
        if (this.data.size) this.paint();
        this.request();
        this.loadOverview();
        this.loadSelected();
        await names;
        if (source !== this.source) return;
        this.updateMatches();
        this.countMatches();
        this.draw();
      } catch (error) {
        if (source === this.source) this.say(error.message, true);
      }
    }

    // Takes the range of the address, unless it is the one already shown.
    follow(view) {
      const found = /^(-?\d+):(-?\d+)$/.exec(view.range || '');
      const {start, end} = found
        ? {start: Number(found[1]), end: Number(found[2])} : this.extent;
      if (this.rangeText() !== (view.range || '') && end > start) {
        this.range = this.bounded(start, end);
      }
    }

    rangeText() {
      const {start, end} = this.range;
      const isAll = start <= this.extent.start && end >= this.extent.end;
      return isAll ? '' : Math.round(start) + ':' + Math.round(end);
    }

    // Writes the address after a short quiet time.
    changed(tab) {
      clearTimeout(this.quiet);
      this.tab = tab || this.tab;
      const report = this.report;
      this.quiet = setTimeout(() => {
        // While the page starts, its own address component would undo the change: try again.
        if (!space.isStarted) { this.changed(); return; }
        if (!this.extent || this.report !== report || !this.isShown()) return;
        const {mark, closed, at} = this.state;
        const {tab: wanted} = this;
        this.tab = '';
        const address = {
          ...(wanted ? {tab: wanted} : {}),
          range: this.rangeText(),
          mark: mark ? Math.round(mark.start) + ':' + Math.round(mark.end) : '',
          closed: [...closed].sort((a, b) => a - b).join(','),
          at,
        };
        Object.assign(this.address, address);
        window.tilescope.changeView(address, false);
      }, QUIET_MS);
    }

    // --- motion ----------------------------------------------------------------------------

    bounded(start, end) {
      const {extent} = this;
      const whole = extent.end - extent.start;
      const span = Math.max(Math.min(SHORTEST, whole), Math.min(end - start, whole));
      const middle = (start + end) / 2;
      let low = end - start < span ? middle - span / 2 : start;
      low = Math.max(extent.start, Math.min(low, extent.end - span));
      return {start: low, end: low + span};
    }

    moveTo(start, end, isSmooth) {
      const goal = this.bounded(start, end);
      const still = !isSmooth || matchMedia('(prefers-reduced-motion: reduce)').matches;
      this.goal = still ? null : {...goal, from: {...this.range}, since: performance.now()};
      if (still) this.range = goal;
      this.hover(null);
      this.draw();
      if (still) this.request();
      this.changed();
    }

    advance() {
      if (!this.goal) return;
      const {from, since, start, end} = this.goal;
      const part = Math.min(1, (performance.now() - since) / MOVE_MS);
      const eased = 1 - (1 - part) ** 3;
      this.range = {
        start: from.start + (start - from.start) * eased,
        end: from.end + (end - from.end) * eased,
      };
      if (part >= 1) { this.range = {start, end}; this.goal = null; }
      else this.draw();
      this.request();
    }

    // Where the goal of a motion lies, so that keys pressed in quick succession add up.
    target() {
      return this.goal ? {start: this.goal.start, end: this.goal.end} : this.range;
    }

    zoomAt(factor, part, isSmooth) {
      const {start, end} = this.target();
      const at = start + (end - start) * part;
      this.moveTo(at - (at - start) * factor, at + (end - at) * factor, isSmooth);
    }

    pan(part, isSmooth) {
      const {start, end} = this.target();
      const by = (end - start) * part;
      const low = Math.max(this.extent.start, Math.min(start + by, this.extent.end - (end - start)));
      this.moveTo(low, low + end - start, isSmooth);
    }

    showAll() {
      this.moveTo(this.extent.start, this.extent.end, true);
    }

    focusSelection() {
      const goal = this.state.mark || this.selected;
      if (!goal) return;
      const [start, end] = this.state.mark ? [goal.start, goal.end] : [goal.start_cycle, goal.end_cycle];
      const room = (end - start) * 0.05;
      this.moveTo(start - room, end + room, true);
    }

    clear() {
      this.state.mark = null;
      this.state.at = '';
      this.selected = null;
      this.hover(null);
      this.draw();
      this.changed();
    }

    mark(from, to) {
      const [start, end] = [Math.round(Math.min(from, to)), Math.round(Math.max(from, to))];
      this.state.mark = end > start ? {start, end} : null;
      this.draw();
    }

    // --- places ----------------------------------------------------------------------------

    get width() {
      return Math.max(1, this.scroller.clientWidth - GUTTER);
    }

    cycleAt(x) {
      return this.range.start + x / this.width * (this.range.end - this.range.start);
    }

    pointer() {
      return this.last ? Math.max(0, Math.min(1, this.last.x / this.width)) : 0.5;
    }

    // Lays out the groups from top to bottom; heights follow the lanes that are known.
    arrange() {
      if (!this.extent) return;
      const {ipus, closed, view} = this.state;
      let top = space.RULER + 4;
      const before = new Map(this.groups.map((group) => [group.key, group.levels]));
      this.groups = [];
      for (const {ipu_id: ipu, track} of this.tracks) {
        if (ipus && !ipus.has(ipu)) continue;
        const key = ipu + '.' + track;
        const isClosed = closed.has(ipu);
        const how = isClosed ? 'flat' : view;
        const known = this.data.get(key) || this.whole.get(key);
        const levels = known && known.how === how ? known.lanes.length - 1
          : how === 'flat' ? 1 : Math.max(1, before.get(key) || 5);
        const height = space.RUN_LANE + levels * space.LANE;
        this.groups.push({key, ipu, track, isClosed, how, levels, top, height});
        top += height + space.GAP;
      }
      this.height = top;
      const most = Math.max(190, Math.min(window.innerHeight * 0.56, 640));
      const shown = Math.max(120, Math.min(top + 2, most));
      this.scroller.style.height = shown + 'px';
      this.spacer.style.height = Math.max(0, top - shown) + 'px';
      this.paintGutter();
    }

    paintGutter() {
      const wanted = this.groups.map((group) => [group.key, group.isClosed, group.top].join()).join(';');
      if (this.gutterKey === wanted) return;
      this.gutterKey = wanted;
      if (!this.gutter) this.gutter = make('div', 'trace-gutter', this.scroller);
      this.gutter.textContent = '';
      for (const group of this.groups) {
        const button = make('button', 'trace-group', this.gutter);
        button.type = 'button';
        button.style.top = group.top + 'px';
        const name = 'IPU ' + group.ipu + (group.track ? ' I/O' : '');
        button.textContent = (group.isClosed ? '▸ ' : '▾ ') + name;
        button.setAttribute('aria-expanded', String(!group.isClosed));
        button.title = (group.isClosed ? 'Show all levels of ' : 'Show one lane of ') + name;
        button.addEventListener('click', () => {
          const {closed} = this.state;
          if (!closed.delete(group.ipu)) closed.add(group.ipu);
          for (const store of [this.data, this.whole]) {
            for (const key of [...store.keys()]) if (key.startsWith(group.ipu + '.')) store.delete(key);
          }
          this.arrange();
          this.draw();
          this.request();
          this.changed();
        });
      }
    }

    // Groups on the screen, and one screen around it if `around`.
    visibleGroups(around) {
      const top = this.scroller.scrollTop;
      const height = this.scroller.clientHeight;
      const room = around ? height : 0;
      return this.groups.filter(
        (group) => group.top + group.height > top - room && group.top < top + height + room,
      );
    }

    laneAt(y) {
      const at = y + this.scroller.scrollTop;
      const group = this.groups.find((one) => at >= one.top && at < one.top + one.height);
      if (!group || y < space.RULER) return null;
      const inside = at - group.top;
      const level = inside < space.RUN_LANE ? -1 : Math.floor((inside - space.RUN_LANE) / space.LANE);
      const data = this.best(group);
      const lane = data && data.lanes.find((one) => one.level === level);
      return lane ? {group, level, lane, data} : null;
    }

    // --- data ------------------------------------------------------------------------------

    get cyclesPerPixel() {
      return (this.range.end - this.range.start) / this.width;
    }

    covers(data) {
      return data && data.start <= this.range.start + 1 && data.end >= this.range.end - 1;
    }

    // The finer of two answers that cover what is seen; else whatever there is.
    best(group) {
      const near = this.data.get(group.key);
      const far = this.whole.get(group.key);
      const fits = (data) => data && data.how === group.how;
      if (fits(near) && (this.covers(near) || !fits(far))) return near;
      return fits(far) ? far : null;
    }

    isGood(group) {
      const data = this.best(group);
      if (!this.covers(data)) return false;
      const ratio = data.perPixel / this.cyclesPerPixel;
      return ratio <= 1.02 && (ratio > 0.2 || data.perPixel <= 1);
    }

    // Asks for what is missing: one question at a time, then whatever is missing by then.
    async request() {
      if (!this.extent || this.inFlight || !this.isShown() || this.width < 20) return;
      const missing = this.visibleGroups(true).filter((group) => !this.isGood(group));
      if (!missing.length) return;
      const {source, state} = this;
      const view = state.view;
      const span = this.range.end - this.range.start;
      const start = Math.max(this.extent.start, Math.floor(this.range.start - span));
      const end = Math.min(this.extent.end, Math.ceil(this.range.end + span));
      const pixels = Math.max(1, Math.min(20000, Math.ceil((end - start) / this.cyclesPerPixel)));
      const collapsed = [...new Set(missing.filter((g) => g.isClosed).map((g) => g.ipu))];
      const ipus = [...new Set(missing.map((group) => group.ipu))];
      const id = this.asked += 1;
      this.inFlight = true;
      this.isMissing = false;
      try {
        const answer = await source.window({
          start, end, width: pixels, view, ipus: ipus.join(','), collapsed: collapsed.join(','),
        });
        if (source !== this.source || id !== this.asked || view !== state.view) return;
        this.failed = '';
        this.take(answer, collapsed, view);
        this.arrange();
        this.draw();
      } catch (error) {
        if (source === this.source) { this.failed = error.message; this.say(error.message, true); }
      } finally {
        if (source === this.source) {
          this.inFlight = false;
          if (!this.failed) this.request();
        }
      }
    }

    // Keeps an answer; one of the whole trace stays, to be drawn until a finer one comes.
    take(answer, collapsed, view) {
      const {start, end, pixels} = answer;
      const isWhole = start <= this.extent.start && end >= this.extent.end && pixels < 4 * this.width;
      for (const group of answer.groups.values()) {
        const how = collapsed.includes(group.ipu) ? 'flat' : view;
        const data = {...group, start, end, perPixel: (end - start) / pixels, how};
        this.data.set(group.key, data);
        if (isWhole) this.whole.set(group.key, data);
      }
    }

    async loadOverview() {
      const {source, extent, tracks} = this;
      const width = Math.max(100, this.overviewBox.clientWidth || 1000);
      try {
        const answer = await source.window({
          start: extent.start, end: extent.end, width, view: 'flat', ipus: tracks[0].ipu_id,
        });
        if (source !== this.source) return;
        this.overview.take(answer);
        this.draw();
      } catch (error) { /* the lanes say it */ }
    }

    // --- selection and search --------------------------------------------------------------

    async click(at) {
      const found = at.x < 0 ? null : this.laneAt(at.y);
      if (!found) { this.clear(); return; }
      const reach = 2 * this.cyclesPerPixel;
      const cycle = this.cycleAt(at.x);
      const i = space.barAt(found.lane, cycle - found.data.start, reach);
      if (i < 0) { this.clear(); return; }
      const start = found.data.start + found.lane.start[i];
      const inside = Math.max(start, Math.min(Math.floor(cycle), start + found.lane.duration[i] - 1));
      this.state.at = [found.group.ipu, found.group.track, found.level, Math.floor(inside)].join('.');
      this.state.mark = null;
      this.scroller.focus({preventScroll: true});
      this.loadSelected();
      this.changed('details');
    }

    async loadSelected() {
      const {at, view, closed} = this.state;
      const {source} = this;
      const found = /^(\d+)\.(\d+)\.(-?\d+)\.(-?\d+)$/.exec(at);
      if (!found || !source || !this.extent) { this.selected = null; this.draw(); return; }
      const [ipu, track, level, cycle] = found.slice(1).map(Number);
      const how = closed.has(ipu) ? 'flat' : view;
      try {
        const answer = await source.json('slice', {ipu, track, level, cycle, view: how});
        if (source !== this.source || at !== this.state.at) return;
        this.selected = answer.slice;
      } catch (error) {
        this.selected = null;
      }
      this.draw();
    }

    updateMatches() {
      const {find} = this.state;
      this.matches = find.trim() && this.source && this.source.labels.length
        ? this.source.matches(find) : null;
      this.draw();
    }

    async countMatches() {
      const {source, state} = this;
      const find = state.find.trim();
      this.found = '';
      if (!find || !source || !this.extent) { this.writeNote(); return; }
      try {
        const answer = await source.json('search', {text: find, limit: 1});
        if (source !== this.source || find !== state.find.trim()) return;
        this.found = answer.n_occurrences
          ? space.plural(answer.n_occurrences, 'execution', 'executions') + ' of '
            + space.plural(answer.n_names, 'name', 'names') + ' match; N and Shift-N walk through them'
          : 'No step name holds “' + find + '”';
      } catch (error) { this.found = error.message; }
      this.writeNote();
    }

    async findNext(direction) {
      const {source, state} = this;
      if (!state.find.trim() || !source) return;
      const {start, end} = this.target();
      const cycle = this.selected ? this.selected.start_cycle
        : Math.round(direction === 'next' ? start - 1 : end);
      const answer = await source.json('occurrence', {text: state.find, cycle, direction});
      const one = answer.occurrence;
      if (!one || source !== this.source) return;
      const level = state.closed.has(one.ipu_id) || state.view === 'flat' ? 0
        : one.name.split('/').filter((part) => part).length - 1;
      state.at = [one.ipu_id, one.track, Math.max(0, level), one.start_cycle].join('.');
      this.loadSelected();
      if (one.start_cycle < start || one.end_cycle > end) {
        const span = Math.max(end - start, (one.end_cycle - one.start_cycle) * 1.2);
        const middle = (one.start_cycle + one.end_cycle) / 2;
        this.moveTo(middle - span / 2, middle + span / 2, true);
      }
      this.changed();
    }

    // --- drawing ---------------------------------------------------------------------------

    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.advance();
        const since = performance.now();
        this.paint();
        this.frames.push(performance.now() - since);
        if (this.frames.length > 600) this.frames.splice(0, 300);
      });
    }

    paint() {
      if (!this.extent || !this.isShown()) return;
      this.colours = this.colours || space.readColours(this.root);
      const {colours, scroller} = this;
      const ratio = window.devicePixelRatio || 1;
      const width = this.width;
      const height = scroller.clientHeight;
      const context = space.prepare(this.canvas, width, height, ratio);
      context.font = colours.font;
      const scene = {
        start: this.range.start, end: this.range.end, colours, ratio,
        source: this.source, matches: this.matches, kinds: this.kinds,
      };
      space.paintGrid(context, {x: 0, y: space.RULER, width, height}, scene);
      let slices = 0;
      let bars = 0;
      for (const group of this.visibleGroups(false)) {
        const data = this.best(group);
        if (!data) continue;
        let y = group.top - scroller.scrollTop;
        for (const lane of data.lanes) {
          const tall = lane.level < 0 ? space.RUN_LANE : space.LANE;
          if (y + tall > space.RULER && y < height) {
            const seen = space.paintLane(context, data, lane, {x: 0, y, width, height: tall}, scene);
            slices += seen[0];
            bars += seen[1];
          }
          y += tall;
        }
      }
      this.paintSelection(context, width, height);
      space.paintRuler(context, {x: 0, width}, scene);
      this.overview.paint(colours, ratio);
      if (bars && !this.firstPaint) {
        this.firstPaint = performance.now();
        performance.mark('trace-first-paint');
      }
      this.slices = slices;
      this.bars = bars;
      this.writeNote();
    }

    paintSelection(context, width, height) {
      const {colours, state, selected} = this;
      const x = (cycle) => (cycle - this.range.start) / (this.range.end - this.range.start) * width;
      if (state.mark) {
        const [from, to] = [Math.max(-2, x(state.mark.start)), Math.min(width + 2, x(state.mark.end))];
        context.fillStyle = colours.shade;
        context.fillRect(from, 0, Math.max(1, to - from), height);
        context.fillStyle = colours.accent;
        context.fillRect(from, 0, 1.5, height);
        context.fillRect(to - 1.5, 0, 1.5, height);
      }
      if (!selected) return;
      const group = this.groups.find((one) => one.ipu === selected.ipu_id && one.track === selected.track);
      if (!group) return;
      const y = group.top - this.scroller.scrollTop
        + (selected.level < 0 ? 0 : space.RUN_LANE + selected.level * space.LANE);
      const from = Math.max(-3, x(selected.start_cycle));
      const to = Math.min(width + 3, x(selected.end_cycle));
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(from, y - 0.5, Math.max(3, to - from - 1), (selected.level < 0 ? space.RUN_LANE : space.LANE) - 1);
    }

    writeNote() {
      if (!this.extent) { this.note.textContent = ''; return; }
      const [start, end] = [Math.round(this.range.start), Math.round(this.range.end)];
      const parts = [
        space.plural(end - start, 'cycle', 'cycles') + ' from ' + space.count(start) + ' to ' + space.count(end),
      ];
      const time = space.seconds(end - start, this.hertz);
      if (time) parts[0] += ' (' + time + ')';
      if (this.slices > this.bars) {
        parts.push(space.count(this.slices) + ' slices shown as ' + space.count(this.bars)
          + ' bars; zoom in to see each');
      } else if (this.bars) {
        parts.push('every slice shown (' + space.count(this.bars) + ')');
      }
      const {mark} = this.state;
      if (mark) parts.push(space.plural(mark.end - mark.start, 'cycle', 'cycles') + ' selected');
      if (this.found) parts.push(this.found);
      const text = parts.join(' · ');
      if (this.note.textContent !== text) this.note.textContent = text;
    }

    hover(at) {
      this.last = at || this.last;
      const found = at && this.extent ? this.laneAt(at.y) : null;
      const cycle = found ? this.cycleAt(at.x) : 0;
      const i = found ? space.barAt(found.lane, cycle - found.data.start, 1.5 * this.cyclesPerPixel) : -1;
      if (i < 0) { this.tooltip.style.display = 'none'; return; }
      const {lane, data} = found;
      const kind = this.kinds[lane.kind[i]];
      const count = lane.count[i];
      const cycles = lane.duration[i];
      const title = lane.name[i] >= 0 ? this.source.path(lane.name[i]) || kind.label
        : space.count(count) + ' slices, too short to show apart';
      const share = 100 * cycles / (this.range.end - this.range.start);
      const lines = [
        kind.label + ' [' + kind.letter + ']' + (count > 1 ? ' for the most part' : ''),
        space.plural(cycles, 'cycle', 'cycles')
          + (this.hertz ? ' · ' + space.seconds(cycles, this.hertz) : '')
          + ' · ' + (share >= 0.1 ? share.toFixed(1) : '< 0.1') + ' % of what is seen',
        'from ' + space.count(data.start + lane.start[i]),
      ];
      this.tooltip.textContent = '';
      const head = make('div', 'trace-tooltip-title', this.tooltip);
      const swatch = make('span', 'trace-swatch', head);
      swatch.style.background = this.colours.kinds[kind.number];
      head.append(title);
      for (const line of lines) make('div', '', this.tooltip).textContent = line;
      this.tooltip.style.display = 'block';
      const root = this.root.getBoundingClientRect();
      const box = this.canvas.getBoundingClientRect();
      const x = box.left - root.left + at.x + 14;
      const y = box.top - root.top + at.y + 16;
      const {offsetWidth, offsetHeight} = this.tooltip;
      this.tooltip.style.left = Math.max(0, Math.min(x, root.width - offsetWidth - 4)) + 'px';
      const fits = box.top + at.y + 16 + offsetHeight < window.innerHeight - 6;
      this.tooltip.style.top = (fits ? y : y - offsetHeight - 30) + 'px';
    }

    paintLegend() {
      this.legend.textContent = '';
      for (const kind of this.kinds) {
        if (kind.name === 'run') continue;
        const item = make('span', 'trace-legend-item', this.legend);
        const swatch = make('span', 'trace-swatch trace-swatch-letter', item);
        swatch.style.background = 'var(--trace-' + kind.name.replaceAll('_', '-') + ')';
        swatch.style.color = 'var(--trace-on-' + kind.name.replaceAll('_', '-') + ')';
        swatch.textContent = kind.letter;
        item.append(kind.label);
      }
    }

    say(text, isError) {
      this.message.textContent = text;
      this.message.className = 'trace-message' + (isError ? ' is-error' : '');
      this.message.setAttribute('role', isError ? 'alert' : 'status');
      this.root.classList.toggle('is-empty', text !== '');
    }
  }

  function viewerOf(id) {
    const root = document.getElementById(id);
    if (!root) return null;
    if (!root.viewer) root.viewer = new Viewer(root);
    return root.viewer;
  }

  const FIELDS = ['view', 'ipus', 'find', 'range', 'mark', 'closed', 'at'];

  // The state as the address has it now; what a callback brings may be older.
  function fromAddress(report) {
    const query = new URLSearchParams(location.search);
    const view = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) || '']));
    return {...view, view: view.view || 'flame', report: query.get('report') || report};
  }

  // The page's own start takes long: begin to read as soon as this script runs, and draw as soon
  // as the place is there. The callback that follows finds the same view and leaves it alone.
  (function early() {
    const view = fromAddress('');
    if (location.pathname !== '/trace' || !view.report) return;
    space.early = {report: view.report, source: new space.Source(view.report)};
    space.early.names = space.early.source.loadNames();
    space.early.extent = space.early.source.json('extent');
    // A first answer too, for about the right width: painting it needs no further question.
    space.early.extent.then(async ({start_cycle: low, end_cycle: high, tracks}) => {
      const range = /^(\d+):(\d+)$/.exec(view.range);
      if (!tracks.length || view.ipus || view.closed) return;
      const start = range ? Math.max(low, Number(range[1])) : low;
      const end = range ? Math.min(high, Number(range[2])) : high;
      const ipus = [...new Set(tracks.map((track) => track.ipu_id))].slice(0, 4).join(',');
      const width = Math.max(200, window.innerWidth - 300);
      const answer = await space.early.source.window({start, end, width, view: view.view, ipus});
      if (space.early) space.early.answer = answer;
    }).catch(() => {});
    space.early.names.catch(() => {});
    space.early.extent.catch(() => {});
    const watch = new MutationObserver(() => {
      const root = document.getElementById('trace-viewer');
      if (!root || root.offsetParent === null) return;
      watch.disconnect();
      viewerOf('trace-viewer').show(view);
    });
    watch.observe(document.documentElement, {childList: true, subtree: true, attributes: true, attributeFilter: ['style']});
  })();

  const later = (act) => requestAnimationFrame(() => requestAnimationFrame(act));

  clientside.trace = {
    // The view of the address has changed: follow it, when the page has been laid out.
    show(view) {
      if (!view) return;
      setTimeout(() => { space.isStarted = true; }, QUIET_MS);
      later(() => {
        const viewer = location.pathname === '/trace' ? viewerOf('trace-viewer') : null;
        if (viewer) viewer.show(fromAddress(view.report));
      });
    },
    act(...clicks) {
      const button = clientside.callback_context.triggered_id;
      const viewer = viewerOf('trace-viewer');
      if (!viewer || !viewer.extent || !clicks.some(Boolean)) return;
      ({
        'trace-all': () => viewer.showAll(),
        'trace-in': () => viewer.zoomAt(1 / 2, 0.5, true),
        'trace-out': () => viewer.zoomAt(2, 0.5, true),
        'trace-focus': () => viewer.focusSelection(),
        'trace-previous': () => viewer.findNext('previous'),
        'trace-next': () => viewer.findNext('next'),
      })[button]?.();
    },
  };
})();
