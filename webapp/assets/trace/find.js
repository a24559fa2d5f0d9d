// Part of the viewer: the selected slice, and search in names.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});

  (space.parts = space.parts || []).push({
    async click(at, event) {
      const note = this.noteAt(at);
      if (note) { this.clickNote(note, Boolean(event && event.altKey)); return; }
      const group = at.x < 0 ? null : this.groupAt(at.y);
      if (group && group.form === 'strip' && at.y >= space.RULER) { this.toggleGroup(group); return; }
      const longest = at.x < 0 ? null : this.longestAt(at);
      if (longest) { await this.goToLongest(longest).catch((error) => this.say(error.message, true)); return; }
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
      this.isChosen = true;
      this.scroller.focus({preventScroll: true});
      this.loadSelected();
      this.changed('details');
    },

    async loadSelected() {
      const {at, view} = this.state;
      const {source} = this;
      const found = /^(\d+)\.(\d+)\.(-?\d+)\.(-?\d+)(\.1)?$/.exec(at);
      if (!found || !source || !this.extent) { this.selected = null; this.draw(); return; }
      const [ipu, track, level, cycle] = found.slice(1, 5).map(Number);
      const side = found[5] && this.sources.length > 1 ? 1 : 0;
      // A slice is on a level, which a strip does not have.
      if (this.hasStrips && this.isFolded(ipu)) this.toggleGroup({ipu});
      const how = this.isFolded(ipu) ? 'flat' : view;
      try {
        const answer = await this.sources[side].json('slice', {ipu, track, level, cycle, view: how});
        if (source !== this.source || at !== this.state.at) return;
        this.selected = answer.slice && {...answer.slice, side};
        if (this.selected && !this.isChosen) this.reveal({...this.selected, level});
        if (this.isChosen) this.selectOnAllPages();
      } catch (error) {
        this.selected = null;
      }
      this.draw();
    },

    // A clicked step of the baseline is what all pages select; another slice leaves none.
    selectOnAllPages() {
      const {step_id: step, side} = this.selected || {step_id: null, side: 0};
      this.isChosen = false;
      this.chosen = step === null || side ? '' : 'step:' + step;
      this.changed();
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

    // What keeps a search to the visible rows and kinds, of one side or of all; null where none is left.
    visibleOnly(side) {
      const {ipus} = this.state;
      const tracks = this.tracks.filter((track) => side === undefined || track.side === side);
      const known = [...new Set(tracks.map((track) => track.ipu_id))];
      const shown = known.filter((ipu) => !ipus || ipus.has(ipu));
      if (!shown.length) return null;
      const hide = space.kindNames(this.hidden, this.kinds).join(',');
      return {ipus: ipus ? shown.join(',') : '', hide};
    },

    async countMatches() {
      const {source, state} = this;
      const find = state.find.trim();
      this.found = '';
      this.total = undefined;
      if (!find || !source || !this.extent) { this.writeNote(); return; }
      try {
        const answers = await Promise.all(this.sources.map(async (one, side) => {
          const shown = this.visibleOnly(side);
          return shown ? one.json('search', {text: find, limit: 1, ...shown}) : {n_occurrences: 0};
        }));
        if (source !== this.source || find !== state.find.trim()) return;
        const counts = answers.map(({n_occurrences: n, n_names: names}) => n
          ? space.plural(n, 'execution', 'executions') + ' of ' + space.plural(names, 'name', 'names') : 'none');
        this.total = answers.reduce((sum, answer) => sum + answer.n_occurrences, 0);
        this.found = !this.total
          ? 'No step name contains “' + find + '”'
          : (counts.length > 1 ? counts.map((text, side) => space.SIDES[side] + ': ' + text).join(', ') : counts[0])
            + ' match; N and Shift-N step through them';
      } catch (error) { this.found = error.message; }
      this.writeNote();
    },

    // Beside the search: which match is selected, or how many there are.
    writeMatch() {
      const box = document.getElementById('trace-match');
      if (!box) return;
      const {match, state, total} = this;
      const isHere = match && match.find === state.find.trim() && match.at === state.at;
      const text = isHere ? 'Match ' + space.count(match.number) + ' of ' + space.count(match.n)
        : total === undefined ? '' : total ? space.plural(total, 'match', 'matches') : 'No match';
      if (box.textContent !== text) box.textContent = text;
    },

    // Selects the first execution of the wanted step and shows it with its neighbours.
    async goToStep() {
      const {source, wantedStep: step} = this;
      this.wantedStep = undefined;
      const {occurrence: one, why} = await source.json('step/' + step + '/first')
        .catch((error) => ({occurrence: null, why: error.message}));
      if (source !== this.source) return;
      this.missing = one ? '' : why;
      if (!one) { this.writeNote(); return; }
      this.select(one);
      const apart = 2 * Math.max(one.end_cycle - one.start_cycle, 20);
      this.moveTo(one.start_cycle - apart, one.end_cycle + apart, true);
      this.changed('details');
    },

    // Selects an execution of a step, on the level where the view draws it.
    select(one) {
      const {state} = this;
      const isLane = !this.hasStrips && state.closed.has(one.ipu_id);
      const level = isLane || state.view === 'flat' ? 0
        : one.name.split('/').filter((part) => part).length - 1;
      const side = one.side ? [one.side] : [];
      state.at = [one.ipu_id, one.track, Math.max(0, level), one.start_cycle, ...side].join('.');
      this.loadSelected();
    },

    // Selects the slice beside the selected one, or the one around or inside it.
    step(direction) {
      const {selected} = this;
      const place = selected && this.rowOf(selected);
      const data = place && this.best(place.row);
      if (!data) return;
      const {start_cycle: start, end_cycle: end, level} = selected;
      const wanted = level + {up: -1, down: 1, next: 0, previous: 0}[direction];
      const lane = data.lanes.find((one) => one.level === wanted);
      if (!lane || wanted < 0) return;
      const i = direction === 'next' ? space.firstBeginningAt(lane, end - data.start)
        : direction === 'previous' ? space.firstBeginningAt(lane, start - data.start) - 1
          : space.firstEndingAfter(lane, start - data.start);
      if (i < 0 || i >= lane.n) return;
      const from = data.start + lane.start[i];
      if (direction === 'down' && from >= end) return;
      const cycle = direction === 'previous' ? from + lane.duration[i] - 1 : direction === 'up' ? start : Math.max(from, start);
      const {ipu, track, side} = place.row;
      this.state.at = [ipu, track, wanted, Math.floor(direction === 'next' ? from : cycle), ...(side ? [side] : [])].join('.');
      this.isChosen = true;
      this.loadSelected();
      const {start: low, end: high} = this.target();
      if (cycle < low || cycle >= high) this.moveTo(cycle - (high - low) / 2, cycle + (high - low) / 2, true);
      this.changed('details');
    },

    // Selects the next or previous match; of several requests, every one begins where the last one ended.
    findNext(direction) {
      const step = () => this.findFrom(direction).catch((error) => { this.found = error.message; this.writeNote(); });
      this.steps = (this.steps || Promise.resolve()).then(step);
      return this.steps;
    },

    async findFrom(direction) {
      const {source, state, match, selected} = this;
      const find = state.find.trim();
      const shown = source && this.visibleOnly();
      if (!find || !shown) return;
      const {start, end} = this.target();
      const isNext = direction === 'next';
      const isHere = match && match.find === find && match.at === state.at && match.shown === shown.ipus + shown.hide;
      const from = isHere ? {number: (match.number - 1 + (isNext ? 1 : -1) + match.n) % match.n + 1}
        : {direction, cycle: selected ? selected.start_cycle : Math.round(isNext ? start - 1 : end)};
      const {occurrence: one, number, n_matches: n} = await source.json('match', {text: find, ...shown, ...from});
      if (!one || source !== this.source) return;
      this.select(one);
      this.match = {find, shown: shown.ipus + shown.hide, at: state.at, number, n};
      if (one.start_cycle < start || one.end_cycle > end) {
        const span = Math.max(end - start, (one.end_cycle - one.start_cycle) * 1.2);
        const middle = (one.start_cycle + one.end_cycle) / 2;
        this.moveTo(middle - span / 2, middle + span / 2, true);
      }
      this.writeNote();
      this.changed();
    },
  });
})();
