// Part of the viewer: who waits for whom, as arrows and in the names of waits, and where the critical path lies.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const MOST_SHOWN = 40; // arrows that are drawn without a selection
  const LEAST = 8; // pixels of a wait that has one then
  const MOST_RUNS = 4; // visible runs whose critical path is asked for
  const HEAD = 4; // pixels of an arrow's head
  const QUIET_MS = 150;

  /** The wait of an IPU that holds a cycle; null where it does not wait. */
  space.waitAt = (waits, ipu, cycle) => waits.find(
    (wait) => wait.ipu_id === ipu && wait.start_cycle <= cycle && cycle < wait.end_cycle,
  ) || null;

  /** The waits whose arrows are drawn: all if they are few enough, else that of the selected slice. */
  space.shownWaits = (waits, {start, end}, perPixel, selected) => {
    const inside = waits.filter((wait) => wait.start_cycle < end && wait.end_cycle > start);
    const long = inside.filter((wait) => wait.end_cycle - wait.start_cycle >= LEAST * perPixel);
    if (long.length <= MOST_SHOWN) return long;
    const one = selected && inside.find((wait) => wait.ipu_id === selected.ipu_id
      && wait.start_cycle < selected.end_cycle && wait.end_cycle > selected.start_cycle);
    return one ? [one] : [];
  };

  /** What a wait is called in some room: whom it waits for, as far as that fits. */
  space.waitText = (wait, room, measure) => {
    const texts = ['waits for IPU ' + wait.late_ipu_id, '← IPU ' + wait.late_ipu_id, '←' + wait.late_ipu_id];
    return texts.find((text) => measure(text) <= room) || '';
  };

  (space.parts = space.parts || []).push({
    // Asks for the waits around what is seen, and for the critical paths of the runs in it.
    requestWaits() {
      clearTimeout(this.waitsLater);
      if (!this.hasWaits()) { this.waits = []; return; }
      this.waitsLater = setTimeout(() => this.loadWaits(), QUIET_MS);
    },

    hasWaits() {
      return this.sources.length === 1 && this.extent !== null && new Set(this.tracks.map((track) => track.ipu_id)).size > 1;
    },

    async loadWaits() {
      const {source, extent, range} = this;
      if (!source || !extent) return;
      const place = space.windowOf(range, extent, this.cyclesPerPixel, 1);
      const key = [place.start, place.end].join();
      const runs = (this.runs || []).filter((run) => run.start_cycle < range.end && run.end_cycle > range.start);
      try {
        if (this.waitsKey !== key) {
          const {rows} = await source.json('waits', {start: place.start, end: place.end});
          if (source !== this.source) return;
          this.waitsKey = key;
          this.waits = rows;
          this.draw();
        }
        if (runs.length > MOST_RUNS) return;
        for (const {run_id: id} of runs) {
          if (this.critical.has(id)) continue;
          this.critical.set(id, []);
          const {spans} = await source.json('critical/' + id);
          if (source !== this.source) return;
          this.critical.set(id, spans);
          this.draw();
        }
      } catch (error) {
        // A range with too many syncs has no arrows; the trace itself is shown.
        this.waits = [];
      }
    },

    // The rows of the named IPU that are on the canvas or outside it; undefined if it is not shown.
    groupOf(ipu) {
      return this.groups.find((group) => group.ipu === ipu && group.track === 0 && group.tile === undefined);
    },

    paintWaits(context, width, height) {
      const {colours, range, selected} = this;
      if (!this.hasWaits() || !this.waits.length) return;
      const shown = space.shownWaits(this.waits, range, this.cyclesPerPixel, selected);
      if (!shown.length) return;
      const top = this.pinnedBottom;
      context.save();
      context.beginPath();
      context.rect(0, top, width, height - top);
      context.clip();
      context.strokeStyle = context.fillStyle = colours.accent;
      context.lineWidth = 1.5;
      context.textBaseline = 'middle';
      for (const wait of shown) {
        const to = this.groupOf(wait.ipu_id);
        const from = this.groupOf(wait.late_ipu_id);
        if (!to || !from) continue;
        const isDown = this.screenTop(to) > this.screenTop(from);
        const y1 = this.screenTop(from) + (isDown ? from.height : 0);
        const y2 = this.screenTop(to) + (isDown ? 0 : to.height);
        const x1 = Math.round(this.pixelOf(wait.late_cycle)) + 0.5;
        const x2 = Math.round(this.pixelOf(wait.end_cycle)) + 0.5;
        context.beginPath();
        context.moveTo(x1, y1);
        context.lineTo(x2, y2);
        context.stroke();
        context.beginPath();
        context.moveTo(x2, y2);
        context.lineTo(x2 - HEAD, y2 + (isDown ? -1 : 1) * 1.5 * HEAD);
        context.lineTo(x2 + HEAD, y2 + (isDown ? -1 : 1) * 1.5 * HEAD);
        context.fill();
        context.beginPath();
        context.arc(x1, y1, 2.5, 0, 2 * Math.PI);
        context.fill();
        // An end that is not to be seen has a name.
        const name = (group, x, y) => {
          if (y >= top && y <= height) return;
          const text = group.name;
          context.fillText(text, x + 5, y < top ? top + 8 : height - 8);
        };
        name(from, x1, y1);
        name(to, x2, y2);
      }
      context.restore();
    },

    // A line along the lower edge of the runs: where the others wait for this IPU.
    paintCritical(context, group, y, scene) {
      if (!this.hasWaits() || group.tile !== undefined || group.track !== 0) return;
      context.fillStyle = scene.colours.accent;
      const height = group.form === 'strip' ? 1 : 4;
      for (const spans of this.critical.values()) {
        for (const span of spans) {
          if (span.ipu_id !== group.ipu || span.end_cycle <= scene.start || span.start_cycle >= scene.end) continue;
          const from = Math.max(0, Math.round(this.pixelOf(span.start_cycle)));
          const to = Math.min(this.width, Math.round(this.pixelOf(span.end_cycle)));
          context.fillRect(from, y - height, Math.max(1, to - from), height);
        }
      }
    },

    // The share of a run that is on the critical path on an IPU; null where that is not known.
    criticalShare(ipu, start, cycles) {
      const run = (this.runs || []).find((one) => one.start_cycle <= start && start < one.end_cycle);
      const spans = run && this.critical.get(run.run_id);
      if (!spans || !spans.length) return null;
      return spans.filter((span) => span.ipu_id === ipu).reduce((sum, span) => sum + span.end_cycle - span.start_cycle, 0)
        / Math.max(1, cycles);
    },

    // Goes along a wait: from the one that waits to the step it waits for, or back.
    followWait(direction) {
      const {selected} = this;
      if (!selected || !this.waits.length) return;
      const isOf = (wait) => direction === 'forth'
        ? wait.ipu_id === selected.ipu_id && wait.start_cycle < selected.end_cycle && wait.end_cycle > selected.start_cycle
        : wait.late_ipu_id === selected.ipu_id && wait.late_step_id === selected.step_id
          && wait.late_cycle === selected.end_cycle;
      const wait = this.waits.find(isOf);
      if (!wait) {
        this.found = direction === 'forth' ? 'The selected slice waits for no other IPU'
          : 'No IPU waits for the selected slice';
        this.writeNote();
        return;
      }
      const {late_step: name, late_ipu_id: ipu, late_cycle: cycle} = wait;
      if (direction === 'forth') this.select({ipu_id: ipu, track: 0, name, start_cycle: cycle - 1});
      else {
        const level = this.waitLevel(wait);
        this.state.at = [wait.ipu_id, 0, level, wait.end_cycle - 1].join('.');
        this.loadSelected();
      }
      const {start, end} = this.target();
      if (cycle < start || cycle > end) this.moveTo(cycle - (end - start) / 2, cycle + (end - start) / 2, true);
      this.changed('details');
    },

    // The level on which an IPU's wait is drawn.
    waitLevel(wait) {
      const group = this.groupOf(wait.ipu_id);
      const data = group && this.best(group);
      const middle = (wait.start_cycle + wait.end_cycle) / 2;
      for (const lane of data ? data.lanes : []) {
        if (lane.level < 0) continue;
        const i = space.barAt(lane, middle - data.start, 0);
        if (i >= 0 && lane.kind[i] === space.WAIT) return lane.level;
      }
      return 0;
    },
  });
})();
