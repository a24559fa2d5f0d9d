// Part of the viewer: which bars are loaded, which are missing, and requests for those.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const RETRY_MS = 3000;
  const STRIP_PIXELS = 2; // of the screen, a pixel of the answer for a strip
  const MOST_PIXELS = 20000; // of an answer

  /** Whether an answer is as fine as a resolution in cycles a pixel, and not so fine that it is large. */
  space.isFine = (perPixel, wanted) => perPixel <= Math.max(1, wanted * 1.02) && (perPixel > wanted / 4 || perPixel <= 1);

  /**
   * The window of an answer for a visible range: a power of two of cycles a pixel, bounds that are multiples of it
   * and of a part of the range, so that ranges beside each other share a window; `around` is what it has on
   * either side, as a part of the range.
   */
  space.windowOf = (range, extent, wanted, around) => {
    const perPixel = 2 ** Math.max(0, Math.floor(Math.log2(wanted)));
    const span = range.end - range.start;
    const step = perPixel * 2 ** Math.max(0, Math.round(Math.log2(span / perPixel / 8)));
    const room = Math.min(around * span, Math.max(0, (MOST_PIXELS * perPixel - span) / 2 - step));
    const low = Math.max(Math.floor((range.start - room) / step) * step, Math.floor(extent.start / perPixel) * perPixel);
    const high = Math.min(Math.ceil((range.end + room) / step) * step, Math.ceil(extent.end / perPixel) * perPixel);
    const pixels = Math.max(1, Math.min(MOST_PIXELS, Math.round((high - low) / perPixel)));
    return {start: low, end: low + pixels * perPixel, pixels, perPixel};
  };

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
      return space.isFine(data.perPixel, this.cyclesPerPixel * (group.form === 'strip' ? STRIP_PIXELS : 1));
    },

    // Asks for what is missing. An answer is for a window around what is seen, so that most motion needs none; one
    // whose window has been left is not waited for.
    async request() {
      if (!this.extent || !this.isShown() || this.width < 20) return;
      if (this.asking) {
        if (this.asking.serves(this)) return;
        this.asking.stop.abort();
        this.asking = null;
      }
      const missing = this.visibleGroups(true).filter((group) => !this.isGood(group));
      if (!missing.length) return;
      const {source, state} = this;
      const view = state.view;
      const stop = new AbortController();
      // Many strips are asked for at half the resolution, and with less around what is seen.
      const places = [false, true].map((isStrip) => space.windowOf(
        this.range, this.extent, this.cyclesPerPixel * (isStrip ? STRIP_PIXELS : 1), isStrip ? 0.25 : 1,
      ));
      const keys = new Set(missing.map((group) => group.key + group.how));
      const isStale = missing.some((group) => (this.best(group) || {}).isStale);
      const asking = {
        stop,
        serves: (viewer) => !isStale && viewer.source === source && viewer.state.view === view
          && viewer.visibleGroups(true).every((group) => viewer.isGood(group) || keys.has(group.key + group.how)
            && viewer.covers(places[Number(group.form === 'strip')])
            && space.isFine(places[Number(group.form === 'strip')].perPixel,
              viewer.cyclesPerPixel * (group.form === 'strip' ? STRIP_PIXELS : 1))),
      };
      this.asking = asking;
      const ask = async (side, isStrip) => {
        const groups = missing.filter((group) => group.side === side && (group.form === 'strip') === isStrip);
        const {start, end, pixels} = places[Number(isStrip)];
        const collapsed = [...new Set(groups.filter((g) => g.isClosed).map((g) => g.ipu))];
        const ipus = [...new Set(groups.map((group) => group.ipu))];
        const answer = await this.sources[side].window({
          start, end, width: pixels, view, ipus: ipus.join(','), collapsed: collapsed.join(','),
          tiles: isStrip ? '' : state.tiles.join(','), steps: Number(!isStrip && view !== 'flat'),
        }, stop.signal);
        if (source !== this.source || this.asking !== asking || view !== state.view) return;
        if (this.failed) { this.failed = ''; this.say(''); }
        this.take(answer, collapsed, view, side);
        this.arrange();
        this.draw();
        this.requestWaits();
      };
      try {
        const parts = new Set(missing.map((group) => (group.side ? 2 : 0) + (group.form === 'strip' ? 1 : 0)));
        await Promise.all([...parts].map((part) => ask(part >> 1, part % 2 === 1)));
      } catch (error) {
        if (source !== this.source || this.asking !== asking) return;
        this.failed = error.message;
        this.say(error.message, true);
        setTimeout(() => this.request(), RETRY_MS);
      } finally {
        if (this.asking === asking) {
          this.asking = null;
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
            ...group, key: name, lanes, steps: columns ? group.steps || lanes.find(({level}) => level === 0) || null : null, tiles: tiles.map((lane) => space.tileOf(lane.level)),
            levels: lanes.filter(({level}) => level >= 0).length, columns, start, end, perPixel, how,
          };
          this.data.set(name, data);
          if (isWhole) this.whole.set(name, data);
        };
        const ofNames = group.lanes.filter((lane) => space.tileOf(lane.level) < 0);
        row(key, ofNames, space.shareColumns(group.steps ? [group.steps] : ofNames, pixels, perPixel));
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
