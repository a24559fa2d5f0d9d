// Part of the viewer: the marked range, and layout on the screen. Motion is shared by all axes.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const GUTTER = 92;

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
      const before = new Map(this.groups.map((group) => [group.key, group.height]));
      const rows = [];
      for (const {ipu_id: ipu, track, side} of this.tracks) {
        if (ipus && !ipus.has(ipu)) continue;
        const key = space.groupKey(ipu, track, side);
        const isClosed = closed.has(ipu);
        const how = isClosed ? 'flat' : view;
        const known = this.best({key, how});
        const height = known ? known.height : how === 'flat' ? space.RUN_LANE + space.LANE
          : before.get(key) || space.RUN_LANE + 5 * space.LANE;
        const group = {key, ipu, track, side, isClosed, how, top: 0, height, isPinned: false};
        rows.push({...group, name: 'IPU ' + ipu + (track ? ' I/O' : '')});
        for (const tile of known ? known.tiles : []) {
          rows.push({...group, key: space.tileKey(key, tile), height: space.LANE, tile, name: 'Tile ' + tile});
        }
      }
      const most = Math.max(190, Math.min(window.innerHeight * 0.56, 640));
      this.groups = space.pinnedFirst(rows, this.state.pins, most);
      let top = space.RULER + 4;
      this.groups.forEach((row, index) => {
        const next = this.groups[index + 1];
        row.top = top;
        // Rows of tiles follow their group without a gap.
        top += row.height + (next && next.tile !== undefined && next.isPinned === row.isPinned ? 0 : space.GAP);
      });
      this.height = top;
      const shown = Math.max(120, Math.min(top + 2, most));
      this.scroller.style.height = shown + 'px';
      this.spacer.style.height = Math.max(0, top - shown) + 'px';
      this.paintGutter();
    },

    // Visible groups, and those within one screen of them if `around`.
    visibleGroups(around) {
      const height = this.scroller.clientHeight;
      const room = around ? height : 0;
      return this.groups.filter((group) => {
        const top = this.screenTop(group);
        return group.isPinned || (top + group.height > -room && top < height + room);
      });
    },

    laneAt(y) {
      const isPinned = y < this.pinnedBottom;
      const group = this.groups.find((one) => one.isPinned === isPinned
        && y >= this.screenTop(one) && y < this.screenTop(one) + one.height);
      if (!group || y < space.RULER) return null;
      const inside = y - this.screenTop(group);
      const data = this.best(group);
      const lane = data && data.lanes.find((one) => inside >= one.top && inside < one.top + one.height);
      return lane ? {group, level: lane.level, lane, data} : null;
    },
  });
})();
