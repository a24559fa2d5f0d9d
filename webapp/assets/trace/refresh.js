// Part of the viewer: a report that is still being written has grown. What is drawn stays until newer
// bars arrive, and a visible range that is not the whole trace stays as it is.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});

  (space.parts = space.parts || []).push({
    async refresh(view) {
      const {source, sources} = this;
      if (!this.extent) { await this.open(view); return; }
      try {
        const extents = await Promise.all(sources.map((one) => one.json('extent')));
        if (source !== this.source) return;
        const isWhole = ['', 'all'].includes(this.rangeText()) && this.range.start <= this.extent.start
          && this.range.end >= this.extent.end;
        const [extent] = extents;
        this.extent = {start: extent.start_cycle, end: extent.end_cycle};
        space.noteRuns(sources, extents);
        this.tracks = space.tracksOf(extents);
        if (isWhole) this.range = {...this.extent};
        if (isWhole) this.opening = {...this.extent};
        for (const data of [...this.data.values(), ...this.whole.values()]) data.isStale = true;
        await Promise.all(sources.map((one) => one.loadNames()));
        if (source !== this.source) return;
        this.updateMatches();
        this.countMatches();
        this.loadOverview();
        this.arrange();
        this.draw();
        this.request();
      } catch (error) {
        // The file is replaced at the end of the run: the next look finds it.
      }
    },
  });
})();
