// The execution trace. The page's address holds its state: `show` follows the address, `changed`
// writes it once motion has stopped.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  space.QUIET_MS = 220;

  // The viewer's parts, in files of their own, add their methods to this class.
  const Parts = /** @type {new () => TraceViewerParts} */ (/** @type {unknown} */ (class {}));

  /** @implements {TraceViewer} */
  class Viewer extends Parts {
    constructor(root) {
      super();
      this.root = root;
      root.textContent = '';
      this.overviewBox = space.make('div', 'trace-overview', root);
      this.scroller = space.make('div', 'trace-scroller', root);
      this.scroller.tabIndex = 0;
      this.scroller.setAttribute('role', 'application');
      this.scroller.setAttribute('aria-label',
        'Execution trace. W and S zoom, A and D pan, F focuses the selection, 0 shows everything.'
        + ' The table of top contributors below holds the same figures as text.');
      this.sticky = space.make('div', 'trace-sticky', this.scroller);
      this.canvas = space.make('canvas', 'trace-canvas', this.sticky);
      this.spacer = space.make('div', 'trace-spacer', this.scroller);
      this.tooltip = space.make('div', 'trace-tooltip', root);
      this.message = space.make('div', 'trace-message', root);
      this.note = space.make('div', 'trace-note', root);
      this.note.setAttribute('role', 'status');
      this.legend = document.getElementById('trace-legend') || space.make('div', 'trace-legend', root);
      this.overview = new space.Overview(this.overviewBox, this);
      this.kinds = [];
      this.hidden = 0;
      this.range = {start: 0, end: 1};
      this.state = {view: 'flame', ipus: null, closed: new Set(), opened: new Set(), find: '', at: '', mark: null, marks: [], notes: '', tiles: [], pins: []};
      this.notes = [];
      this.frames = [];
      this.address = {};
      this.reset(null, '', '');
      space.connectInput(this);
      new ResizeObserver(() => { this.arrange(); this.draw(); this.request(); }).observe(this.scroller);
      space.connectSplitter(this);
      window.addEventListener('resize', () => { this.arrange(); this.draw(); this.request(); });
      new MutationObserver(() => { this.colours = null; this.draw(); }).observe(
        document.documentElement, {attributes: true, attributeFilter: ['data-mantine-color-scheme']},
      );
    }

    reset(report, other, align) {
      this.report = report;
      this.align = align;
      this.pair = [report, other, align].join(' ');
      this.sources = report === null ? [] : space.sourcesOf(report, other, align);
      this.source = this.sources[0] || null;
      this.extent = null;
      this.opening = {start: 0, end: 1};
      this.groups = [];
      this.data = new Map();
      this.whole = new Map();
      this.notes = [];
      this.deltas = new Map();
      this.waits = [];
      this.waitsKey = '';
      this.critical = new Map();
      this.matches = null;
      this.match = null;
      this.total = undefined;
      this.selected = null;
      this.levels = new Map();
      this.unseen = null;
      this.present = 0;
      this.wantedStep = undefined;
      this.missing = '';
      if (this.asking) this.asking.stop.abort();
      this.asking = null;
      this.failed = '';
    }

    isShown() {
      return this.root.offsetParent !== null;
    }

    // Follows the address, whose values are strings. Only differences from the last address count:
    // the visible range may be ahead of it.
    async show(view) {
      if (!view || !view.report) {
        this.say('No report is loaded. Choose one at the top, or make one: tilescope run MODEL.onnx');
        return;
      }
      const before = view.report === this.report ? this.address : {};
      this.address = {...view};
      space.writeRows(this);
      const changed = (name) => (view[name] || '') !== (before[name] || '');
      const align = space.alignment(view);
      if ([view.report, view.with || '', align].join(' ') !== this.pair) {
        this.reset(view.report, view.with || '', align);
        this.apply(view, () => true);
        this.say('Reading the trace …');
        await this.open(view);
        return;
      }
      this.apply(view, changed);
      if (changed('live')) await this.refresh(view);
      if (this.extent) {
        if (changed('range')) this.follow(view);
        if (this.wantedStep !== undefined) this.goToStep();
        this.arrange();
        this.draw();
        this.request();
      }
    }

    apply(view, changed) {
      const list = (text) => (text || '').split(',').flatMap((part) => {
        const [, low, high] = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(part) || [];
        if (low === undefined) return [];
        const first = Number(low);
        const last = Math.min(Number(high ?? low), first + 5000);
        return Array.from({length: Math.max(0, last - first + 1)}, (_, i) => first + i);
      });
      const state = this.state;
      if (changed('hide')) this.hide(view.hide);
      if (changed('view') || changed('merge') || changed('tiles')) {
        state.tiles = space.tilesOf(view.tiles);
        state.view = space.viewOf(view);
        this.data.clear();
        this.whole.clear();
      }
      if (changed('ipus')) state.ipus = (view.ipus || '').trim() ? new Set(list(view.ipus)) : null;
      if (changed('closed')) state.closed = new Set(list(view.closed));
      if (changed('opened')) state.opened = new Set(list(view.opened));
      if (changed('pins')) state.pins = space.pinsOf(view.pins);
      if (changed('find')) {
        state.find = view.find || '';
        this.updateMatches();
      }
      if (changed('find') || changed('ipus') || changed('hide')) this.countMatches();
      if (changed('mark')) {
        const mark = /^(-?\d+):(-?\d+)$/.exec(view.mark || '');
        state.mark = mark ? {start: Number(mark[1]), end: Number(mark[2])} : null;
      }
      if (changed('marks')) state.marks = space.marksOf(view.marks);
      if (changed('notes') && state.notes !== (view.notes || '')) {
        state.notes = view.notes || '';
        this.loadNotes();
      }
      if (changed('at') && state.at !== (view.at || '')) {
        // A link from another page names a step: its first execution is looked up.
        const [, step] = /^step:(\d{1,9})$/.exec(view.at || '') || [];
        this.wantedStep = step;
        this.missing = '';
        state.at = step === undefined ? view.at || '' : '';
        this.loadSelected();
      }
    }

    hide(text) {
      this.hidden = space.hiddenKinds(text, this.kinds);
      this.overview.forget();
      this.paintLegend();
      this.draw();
    }

    async open(view) {
      const source = this.source;
      try {
        const early = space.early && space.early.source === source ? space.early : null;
        const names = early ? early.names : Promise.all(this.sources.map((one) => one.loadNames()));
        const extents = await (early ? Promise.all([early.extent])
          : Promise.all(this.sources.map((one) => one.json('extent'))));
        if (source !== this.source) return;
        const [extent] = extents;
        this.kinds = extent.kinds;
        this.hertz = extent.clock_hz;
        this.hide(view.hide);
        this.runs = extent.runs;
        space.noteRuns(this.sources, extents);
        this.tracks = space.tracksOf(extents);
        if (!this.tracks.length || extent.end_cycle <= extent.start_cycle) {
          names.catch(() => {});
          const [why] = extents.map((one) => one.why_empty).filter(Boolean);
          this.say('This report has no execution. ' + (why || ''));
          return;
        }
        this.extent = {start: extent.start_cycle, end: extent.end_cycle};
        this.opening = view.with || view.at || view.mark ? {...this.extent} : space.openingRange(extent, space.guessedWidth());
        this.range = {...this.opening};
        this.follow(view);
        if (!view.range && this.rangeText()) this.changed();
        this.say('');
        if (early && early.answer && !this.state.tiles.length) this.take(early.answer, [], this.state.view, 0);
        space.early = null;
        this.arrange();
        if (this.data.size) this.paint();
        this.request();
        this.requestWaits();
        this.loadNotes();
        this.loadOverview();
        if (this.wantedStep === undefined) this.loadSelected();
        else this.goToStep();
        await names;
        if (source !== this.source) return;
        this.updateMatches();
        this.countMatches();
        this.draw();
      } catch (error) {
        if (source === this.source) this.say(error.message, true);
      }
    }

    // Applies the range in the address, unless it is the one already shown.
    follow(view) {
      const found = /^(-?\d+):(-?\d+)$/.exec(view.range || '');
      const {start, end} = found ? {start: Number(found[1]), end: Number(found[2])}
        : view.range === 'all' ? this.extent : this.opening;
      if (this.rangeText() !== (view.range || '') && end > start) {
        this.range = this.bounded(start, end);
      }
    }

    rangeText() {
      const {start, end} = this.range;
      const isAll = start <= this.extent.start && end >= this.extent.end;
      const isOpening = start === this.opening.start && end === this.opening.end;
      if (isAll) return isOpening ? '' : 'all';
      return Math.round(start) + ':' + Math.round(end);
    }

    // Writes the address after a short pause.
    changed(tab) {
      clearTimeout(this.quiet);
      this.tab = tab || this.tab;
      const report = this.report;
      this.quiet = setTimeout(() => {
        // While the page starts, its address component would undo the change: retry later.
        if (!space.isStarted) { this.changed(); return; }
        if (!this.extent || this.report !== report || !this.isShown()) return;
        const {mark, marks, notes, closed, opened, at, pins} = this.state;
        const numbers = (set) => [...set].sort((a, b) => a - b).join(',');
        const {tab: wanted, chosen} = this;
        this.tab = '';
        this.chosen = undefined;
        const address = {
          ...(wanted ? {tab: wanted} : {}),
          ...(chosen === undefined ? {} : {select: chosen}),
          range: this.rangeText(),
          mark: mark ? Math.round(mark.start) + ':' + Math.round(mark.end) : '',
          marks: space.marksText(marks),
          notes,
          closed: numbers(closed),
          opened: numbers(opened),
          at,
          pins: pins.join(','),
        };
        Object.assign(this.address, address);
        window.tilescope.changeView(address, false);
      }, space.QUIET_MS);
    }
  }

  // The viewer in an element, created on first use.
  space.viewerIn = (root) => {
    for (const part of (space.parts || []).splice(0)) {
      Object.defineProperties(Parts.prototype, Object.getOwnPropertyDescriptors(part));
    }
    root.viewer = root.viewer || new Viewer(root);
    return root.viewer;
  };
})();
