// Times of the trace; the other words are those of all axes.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const {make, count, plural, ticks, tickLabel, prepare} = window.tilescopeAxis;
  Object.assign(space, {make, count, plural, ticks, tickLabel, prepare});
  /** @type {[string, number][]} */
  const TIME_UNITS = [['s', 1], ['ms', 1e-3], ['µs', 1e-6], ['ns', 1e-9]];

  // Cycles as a time on the machine's clock, with three significant digits.
  space.seconds = (cycles, hertz) => {
    if (!hertz) return '';
    const seconds = cycles / hertz;
    for (const [unit, size] of TIME_UNITS) {
      if (seconds >= size || unit === 'ns') return Number((seconds / size).toPrecision(3)) + ' ' + unit;
    }
    return '';
  };
})();
