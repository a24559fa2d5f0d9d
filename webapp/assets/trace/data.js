// Part of the viewer: which bars are loaded, which are missing, and requests for those.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const RETRY_MS = 3000;

  (space.parts = space.parts || []).push({
    get cyclesPerPixel() {
      return (this.range.end - this.range.start) / this.width;
    },

    covers(data) {
      return data && data.start <= this.range.start + 1 && data.end >= this.range.end - 1;
    },

    // The finer of two answers that cover the visible range, or whichever exists.
    best(group) {
      const near = this.data.get(group.key);
      const far = this.whole.get(group.key);
      const fits = (data) => data && data.how === group.how;
      if (fits(near) && (this.covers(near) || !fits(far))) return near;
      return fits(far) ? far : null;
    },

    isGood(group) {
      const data = this.best(group);
      if (!this.covers(data) || data.isStale) return false;
      const ratio = data.perPixel / this.cyclesPerPixel;
      return ratio <= (group.form === 'strip' ? 2.1 : 1.02) && (ratio > 0.2 || data.perPixel <= 1);
    },

    // Requests missing bars, one request at a time, then whatever is missing by then.
    async request() {
      if (!this.extent || this.inFlight || !this.isShown() || this.width < 20) return;
      const missing = this.visibleGroups(true).filter((group) => !this.isGood(group));
      if (!missing.length) return;
      const {source, state} = this;
      const view = state.view;
      const span = this.range.end - this.range.start;
      const id = this.asked += 1;
      this.inFlight = true;
      // Many strips are asked for at half the resolution, and with less around what is seen.
      const ask = async (side, isStrip) => {
        const groups = missing.filter((group) => group.side === side && (group.form === 'strip') === isStrip);
        const around = isStrip ? span / 4 : span;
        const start = Math.max(this.extent.start, Math.floor(this.range.start - around));
        const end = Math.min(this.extent.end, Math.ceil(this.range.end + around));
        const perPixel = this.cyclesPerPixel * (isStrip ? 2 : 1);
        const pixels = Math.max(1, Math.min(20000, Math.ceil((end - start) / perPixel)));
        const collapsed = [...new Set(groups.filter((g) => g.isClosed).map((g) => g.ipu))];
        const ipus = [...new Set(groups.map((group) => group.ipu))];
        const answer = await this.sources[side].window({
          start, end, width: pixels, view, ipus: ipus.join(','), collapsed: collapsed.join(','),
          tiles: isStrip ? '' : state.tiles.join(','),
        });
        if (source !== this.source || id !== this.asked || view !== state.view) return;
        if (this.failed) { this.failed = ''; this.say(''); }
        this.take(answer, collapsed, view, side);
        this.arrange();
        this.draw();
      };
      try {
        const parts = new Set(missing.map((group) => (group.side ? 2 : 0) + (group.form === 'strip' ? 1 : 0)));
        await Promise.all([...parts].map((part) => ask(part >> 1, part % 2 === 1)));
      } catch (error) {
        if (source !== this.source) return;
        this.failed = error.message;
        this.say(error.message, true);
        setTimeout(() => this.request(), RETRY_MS);
      } finally {
        if (source === this.source) {
          this.inFlight = false;
          if (!this.failed) this.request();
        }
      }
    },

    // Stores an answer. One of the whole trace is kept, to be drawn until a finer one arrives.
    take(answer, collapsed, view, side) {
      const {start, end, pixels} = answer;
      const isWhole = start <= this.extent.start && end >= this.extent.end && pixels < 4 * this.width;
      for (const group of answer.groups.values()) {
        this.notePresent(group.lanes);
        const how = collapsed.includes(group.ipu) ? 'flat' : view;
        const perPixel = (end - start) / pixels;
        const key = space.groupKey(group.ipu, group.track, side);
        const tiles = group.lanes.filter((lane) => space.tileOf(lane.level) >= 0);
        const row = (name, lanes, columns) => {
          const data = {
            ...group, key: name, lanes, tiles: tiles.map((lane) => space.tileOf(lane.level)),
            levels: lanes.filter(({level}) => level >= 0).length, columns, start, end, perPixel, how,
          };
          this.data.set(name, data);
          if (isWhole) this.whole.set(name, data);
        };
        const ofNames = group.lanes.filter((lane) => space.tileOf(lane.level) < 0);
        row(key, ofNames, space.shareColumns(ofNames, pixels, perPixel));
        for (const lane of tiles) row(space.tileKey(key, space.tileOf(lane.level)), [lane], null);
      }
    },

    async loadOverview() {
      const {source, extent, tracks} = this;
      const width = Math.max(100, this.overviewBox.clientWidth || 1000);
      try {
        const ipus = [...new Set(tracks.map((track) => track.ipu_id))].slice(0, space.OVERVIEW_ROWS);
        const answers = await Promise.all(this.sources.map((one) => one.window({
          start: extent.start, end: extent.end, width, view: 'flat', ipus: ipus.join(','),
        })));
        if (source !== this.source) return;
        for (const answer of answers) for (const {lanes} of answer.groups.values()) this.notePresent(lanes);
        const groups = tracks.map(({ipu_id: ipu, track, side}) => {
          const group = answers[side].groups.get(ipu + '.' + track);
          return /** @type {[string, TraceLanes]} */ ([space.groupKey(ipu, track, side), group]);
        });
        this.overview.take({...answers[0], groups: new Map(groups.filter(([, group]) => group))});
        this.draw();
      } catch (error) { /* the lanes report it */ }
    },
  });
})();
