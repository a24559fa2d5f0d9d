// Part of the viewer: the selected slice, and search in names.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});

  (space.parts = space.parts || []).push({
    async click(at) {
      const found = at.x < 0 ? null : this.laneAt(at.y);
      if (!found) { this.clear(); return; }
      const reach = 2 * this.cyclesPerPixel;
      const cycle = this.positionAt(at.x);
      const i = space.barAt(found.lane, cycle - found.data.start, reach);
      if (i < 0) { this.clear(); return; }
      const start = found.data.start + found.lane.start[i];
      const inside = Math.max(start, Math.min(Math.floor(cycle), start + found.lane.duration[i] - 1));
      const {ipu, track, side} = found.group;
      this.state.at = [ipu, track, found.level, Math.floor(inside), ...(side ? [side] : [])].join('.');
      this.state.mark = null;
      this.scroller.focus({preventScroll: true});
      this.loadSelected();
      this.changed('details');
    },

    async loadSelected() {
      const {at, view, closed} = this.state;
      const {source} = this;
      const found = /^(\d+)\.(\d+)\.(-?\d+)\.(-?\d+)(\.1)?$/.exec(at);
      if (!found || !source || !this.extent) { this.selected = null; this.draw(); return; }
      const [ipu, track, level, cycle] = found.slice(1, 5).map(Number);
      const side = found[5] && this.sources.length > 1 ? 1 : 0;
      const how = closed.has(ipu) ? 'flat' : view;
      try {
        const answer = await this.sources[side].json('slice', {ipu, track, level, cycle, view: how});
        if (source !== this.source || at !== this.state.at) return;
        this.selected = answer.slice && {...answer.slice, side};
      } catch (error) {
        this.selected = null;
      }
      this.draw();
    },

    // Looks for a text that its box has not reported yet. The address must hold it before anything
    // else changes the address, which the box follows.
    search(text) {
      if (text === this.state.find) return;
      this.state.find = this.address.find = text;
      window.tilescope.changeView({find: text}, false);
      this.updateMatches();
      this.countMatches();
    },

    updateMatches() {
      const {find} = this.state;
      this.matches = find.trim() && this.source && this.source.labels.length
        ? this.sources.map((source) => source.matches(find)) : null;
      this.draw();
    },

    async countMatches() {
      const {source, state} = this;
      const find = state.find.trim();
      this.found = '';
      if (!find || !source || !this.extent) { this.writeNote(); return; }
      try {
        const answers = await Promise.all(
          this.sources.map((one) => one.json('search', {text: find, limit: 1})),
        );
        if (source !== this.source || find !== state.find.trim()) return;
        const counts = answers.map(({n_occurrences: n, n_names: names}) => n
          ? space.plural(n, 'execution', 'executions') + ' of ' + space.plural(names, 'name', 'names') : 'none');
        this.found = !answers.some((answer) => answer.n_occurrences)
          ? 'No step name contains “' + find + '”'
          : (counts.length > 1 ? counts.map((text, side) => space.SIDES[side] + ': ' + text).join(', ') : counts[0])
            + ' match; N and Shift-N step through them';
      } catch (error) { this.found = error.message; }
      this.writeNote();
    },

    // Selects the first execution of the wanted step and shows it with its neighbours.
    async goToStep() {
      const {source, wantedStep: step} = this;
      this.wantedStep = undefined;
      let one = null;
      let why = 'Step ' + step + ' did not run';
      try {
        one = (await source.json('step/' + step + '/first')).occurrence;
      } catch (error) { why = error.message; }
      if (source !== this.source) return;
      if (!one) { this.found = why; this.writeNote(); return; }
      this.select(one);
      const apart = 2 * Math.max(one.end_cycle - one.start_cycle, 20);
      this.moveTo(one.start_cycle - apart, one.end_cycle + apart, true);
      this.changed('details');
    },

    // Selects an execution of a step, on the level where the view draws it.
    select(one) {
      const {state} = this;
      const level = state.closed.has(one.ipu_id) || state.view === 'flat' ? 0
        : one.name.split('/').filter((part) => part).length - 1;
      const side = one.side ? [one.side] : [];
      state.at = [one.ipu_id, one.track, Math.max(0, level), one.start_cycle, ...side].join('.');
      this.loadSelected();
    },

    async findNext(direction) {
      const {source, state} = this;
      if (!state.find.trim() || !source) return;
      const {start, end} = this.target();
      const cycle = this.selected ? this.selected.start_cycle
        : Math.round(direction === 'next' ? start - 1 : end);
      const answers = await Promise.all(this.sources.map(
        (each) => each.json('occurrence', {text: state.find, cycle, direction}),
      ));
      const order = direction === 'next' ? 1 : -1;
      const [one] = answers.map(({occurrence}, side) => occurrence && {...occurrence, side})
        .filter(Boolean).sort((a, b) => order * (a.start_cycle - b.start_cycle));
      if (!one || source !== this.source) return;
      this.select(one);
      if (one.start_cycle < start || one.end_cycle > end) {
        const span = Math.max(end - start, (one.end_cycle - one.start_cycle) * 1.2);
        const middle = (one.start_cycle + one.end_cycle) / 2;
        this.moveTo(middle - span / 2, middle + span / 2, true);
      }
      this.changed();
    },
  });
})();
