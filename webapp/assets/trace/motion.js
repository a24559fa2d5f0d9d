// Part of the viewer: the marked range, and layout on the screen. Motion is shared by all axes.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const GUTTER = 74;

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
      const [start, end] = [Math.round(Math.min(from, to)), Math.round(Math.max(from, to))];
      this.state.mark = end > start ? {start, end} : null;
      this.draw();
    },

    get width() {
      return Math.max(1, this.scroller.clientWidth - GUTTER);
    },

    // Lays out the groups from top to bottom; heights follow the lanes loaded so far.
    arrange() {
      if (!this.extent) return;
      const {ipus, closed, view} = this.state;
      let top = space.RULER + 4;
      const before = new Map(this.groups.map((group) => [group.key, group.height]));
      this.groups = [];
      for (const {ipu_id: ipu, track, side} of this.tracks) {
        if (ipus && !ipus.has(ipu)) continue;
        const key = space.groupKey(ipu, track, side);
        const isClosed = closed.has(ipu);
        const how = isClosed ? 'flat' : view;
        const known = this.best({key, how});
        const height = known ? known.height : how === 'flat' ? space.RUN_LANE + space.LANE
          : before.get(key) || space.RUN_LANE + 5 * space.LANE;
        this.groups.push({key, ipu, track, side, isClosed, how, top, height});
        top += height + space.GAP;
      }
      this.height = top;
      const most = Math.max(190, Math.min(window.innerHeight * 0.56, 640));
      const shown = Math.max(120, Math.min(top + 2, most));
      this.scroller.style.height = shown + 'px';
      this.spacer.style.height = Math.max(0, top - shown) + 'px';
      this.paintGutter();
    },

    paintGutter() {
      const wanted = this.groups.map((group) => [group.key, group.isClosed, group.top].join()).join(';') + this.height
        + this.state.tiles.join();
      if (this.gutterKey === wanted) return;
      this.gutterKey = wanted;
      if (!this.gutter) this.gutter = space.make('div', 'trace-gutter', this.scroller);
      this.gutter.textContent = '';
      for (const group of this.groups) {
        const button = space.make('button', 'trace-group', this.gutter);
        button.type = 'button';
        button.style.top = group.top + 'px';
        const name = 'IPU ' + group.ipu + (group.track ? ' I/O' : '');
        const whose = this.sources.length > 1 ? space.SIDES[group.side] : '';
        button.textContent = (group.isClosed ? '▸ ' : '▾ ') + name;
        if (whose) space.make('span', 'trace-side trace-side-' + group.side, button).textContent = whose;
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
      this.paintTileNames();
    },

    // Visible groups, and those within one screen of them if `around`.
    visibleGroups(around) {
      const top = this.scroller.scrollTop;
      const height = this.scroller.clientHeight;
      const room = around ? height : 0;
      return this.groups.filter(
        (group) => group.top + group.height > top - room && group.top < top + height + room,
      );
    },

    laneAt(y) {
      const at = y + this.scroller.scrollTop;
      const group = this.groups.find((one) => at >= one.top && at < one.top + one.height);
      if (!group || y < space.RULER) return null;
      const inside = at - group.top;
      const data = this.best(group);
      const lane = data && data.lanes.find((one) => inside >= one.top && inside < one.top + one.height);
      return lane ? {group, level: lane.level, lane, data} : null;
    },
  });
})();
