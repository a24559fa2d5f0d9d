// Part of the viewer: the marked range, and layout on the screen. Motion is shared by all axes.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const GUTTER = 92;
  const LEAST = 190; // pixels of the rows
  const BELOW = 250; // pixels of the note, and of the details with their tabs
  const SNAP = 6; // pixels from an edge to a mark that takes its cycle
  const GUESSED_LEVELS = 5; // before the first answer

  (space.parts = space.parts || []).push(window.tilescopeAxis.motion, {
    focusSelection() {
      const {selected, state: {mark}} = this;
      if (!mark && !selected) return;
      const [start, end] = mark ? [mark.start, mark.end] : [selected.start_cycle, selected.end_cycle];
      const room = (end - start) * 0.05;
      this.moveTo(start - room, end + room, true);
    },

    clear() {
      this.state.mark = null;
      this.state.at = '';
      this.selected = null;
      this.hover(null);
      this.draw();
      this.changed();
    },

    mark(from, to) {
      const [low, high] = [this.snapped(Math.min(from, to)), this.snapped(Math.max(from, to))];
      const [start, end] = [Math.round(low), Math.round(high)];
      this.state.mark = end > start ? {start, end} : null;
      this.draw();
    },

    // The nearest edge of a single slice within a few pixels, unless Alt is held; else the cycle itself.
    snapped(cycle) {
      if (this.isSnapOff) return cycle;
      const reach = SNAP * this.cyclesPerPixel;
      let best = cycle;
      let least = reach;
      for (const group of this.visibleGroups(false)) {
        const data = group.form === 'strip' ? null : this.best(group);
        for (const lane of data ? data.lanes : []) {
          if (!lane.height || lane.level < 0) continue;
          const edge = space.edgeNear(lane, cycle - data.start, reach) + data.start;
          if (Math.abs(edge - cycle) <= least) { least = Math.abs(edge - cycle); best = edge; }
        }
      }
      return best;
    },

    get width() {
      return this.measured ? this.measured.width : Math.max(1, this.scroller.clientWidth - GUTTER);
    },

    // Whether the rows of an IPU are one strip or lane. Of many groups, all are strips that were not opened.
    isFolded(ipu) {
      return this.hasStrips ? !this.state.opened.has(ipu) : this.state.closed.has(ipu);
    },

    // Pixels that the rows may take, so that the details below keep theirs.
    room() {
      if (this.split) return this.split;
      const top = this.scroller.getBoundingClientRect().top;
      return Math.max(LEAST, window.innerHeight - top - BELOW);
    },

    // Lays out the groups from top to bottom, by the report and the window.
    arrange() {
      if (!this.extent) return;
      const {ipus, view} = this.state;
      const shown = this.tracks.filter((track) => !ipus || ipus.has(track.ipu_id));
      this.hasStrips = shown.length > space.MOST_GROUPS;
      const groups = shown.map(({ipu_id: ipu, track, side}) => {
        const key = space.groupKey(ipu, track, side);
        const isClosed = this.isFolded(ipu);
        const how = isClosed ? 'flat' : view;
        const known = this.best({key, how});
        const form = /** @type {TraceForm['form']} */ (!isClosed ? 'open' : this.hasStrips ? 'strip' : 'closed');
        this.levels = this.levels || new Map();
        if (known) this.levels.set(key + how, known.levels);
        return {
          key, ipu, track, side, isClosed, how, form,
          levels: this.levels.get(key + how) || (how === 'flat' ? 1 : GUESSED_LEVELS),
          tiles: known ? known.tiles.length : 0, hasActivity: !isClosed, known,
          hasDelta: side === 1 && this.align === 'step' && form !== 'strip',
        };
      });
      const room = this.room();
      const heights = space.rowHeights(groups, room - space.RULER - 6);
      this.heights = heights;
      const rows = [];
      for (const {known, ...one} of groups) {
        const places = space.rowsOf(one, heights);
        const {top, height} = places[places.length - 1];
        const group = {
          ...one, rows: places, top: 0, height: top + height, isPinned: false,
          share: places.find(({type}) => type === 'share'),
        };
        rows.push({...group, name: 'IPU ' + one.ipu + (one.track ? ' I/O' : '')});
        for (const tile of known ? known.tiles : []) {
          const key = space.tileKey(one.key, tile);
          const row = {type: 'slices', level: space.tileLevel(tile), top: 0, height: heights.step};
          rows.push({...group, key, rows: [row], share: undefined, height: heights.step, tile, name: 'Tile ' + tile});
        }
      }
      for (const row of rows) {
        for (const store of [this.data, this.whole]) {
          const data = store.get(row.key);
          if (data && data.how === row.how) space.placeLanes(data.lanes, row.rows);
        }
      }
      this.groups = space.pinnedFirst(rows, this.state.pins, room);
      let top = space.RULER + 4;
      this.groups.forEach((row, index) => {
        const next = this.groups[index + 1];
        row.top = top;
        // Rows of tiles follow their group without a gap, and strips each other.
        const isClose = next && next.isPinned === row.isPinned
          && (next.tile !== undefined || row.form === 'strip' && next.form === 'strip');
        top += row.height + (isClose ? 0 : space.GAP);
      });
      this.height = top;
      const height = Math.max(LEAST, Math.min(top + 2, room));
      this.scroller.style.height = height + 'px';
      this.spacer.style.height = Math.max(0, top - height) + 'px';
      const line = document.getElementById('trace-splitter');
      if (line) line.setAttribute('aria-valuenow', String(height));
      this.paintGutter();
      this.scrollToUnseen();
    },

    // Visible groups, and those within one screen of them if `around`.
    visibleGroups(around) {
      const height = this.measured ? this.measured.height : this.scroller.clientHeight;
      const room = around ? height : 0;
      return this.groups.filter((group) => {
        const top = this.screenTop(group);
        return group.isPinned || (top + group.height > -room && top < height + room);
      });
    },

    groupAt(y) {
      const isPinned = y < this.pinnedBottom;
      return this.groups.find((one) => one.isPinned === isPinned
        && y >= this.screenTop(one) && y < this.screenTop(one) + one.height);
    },

    laneAt(y) {
      const group = this.groupAt(y);
      if (!group || y < space.RULER) return null;
      const inside = y - this.screenTop(group);
      const data = this.best(group);
      const lane = data && data.lanes.find((one) => inside >= one.top && inside < one.top + one.height);
      return lane ? {group, level: lane.level, lane, data} : null;
    },
  });
})();
