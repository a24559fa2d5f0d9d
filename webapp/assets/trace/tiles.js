// Lanes of single tiles: their numbers in the address, and the keys of their rows.
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

  // The lane of all steps of a group.
  space.STEPS_LEVEL = -2;

  // The tile of a lane, -1 for a lane of names.
  space.tileOf = (level) => level >= FIRST ? level - FIRST : -1;

  space.tileLevel = (tile) => FIRST + tile;

  // The key of a tile's row, by that of its group.
  space.tileKey = (group, tile) => group + '.t' + tile;
})();
