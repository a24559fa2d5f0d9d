// Lanes of single tiles: their numbers in the address, and their names beside the rows.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const FIRST = 1000000;
  const MOST = 16;

  // Numbers of a list such as 0, 5, 100-103; the server has lanes for the first sixteen.
  space.tilesOf = (text) => {
    const found = (text || '').split(',').flatMap((part) => {
      const [, low, high] = /^\s*(\d{1,6})(?:-(\d{1,6}))?\s*$/.exec(part) || [];
      if (low === undefined) return [];
      const length = Math.min(MOST, Math.max(0, Number(high ?? low) - Number(low) + 1));
      return Array.from({length}, (_, i) => Number(low) + i);
    });
    return [...new Set(found)].slice(0, MOST);
  };

  // The tile of a lane, -1 for a lane of names.
  space.tileOf = (level) => level >= FIRST ? level - FIRST : -1;

  (space.parts = space.parts || []).push({
    paintTileNames() {
      for (const group of this.groups) {
        const data = this.best(group);
        for (const lane of data ? data.lanes : []) {
          const tile = space.tileOf(lane.level);
          if (tile < 0) continue;
          const name = space.make('span', 'trace-tile', this.gutter);
          name.style.top = group.top + lane.top + 'px';
          name.textContent = 'Tile ' + tile;
        }
      }
    },
  });
})();
