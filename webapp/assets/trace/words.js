// Formats of numbers and times, and creation of elements.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  /** @type {[string, number][]} */
  const TIME_UNITS = [['s', 1], ['ms', 1e-3], ['µs', 1e-6], ['ns', 1e-9]];
  /** @type {[string, number][]} */
  const COUNT_UNITS = [[' G', 1e9], [' M', 1e6], [' k', 1e3]];
  const whole = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});

  space.make = (tag, className, parent) => {
    const element = document.createElement(tag);
    element.className = className;
    if (parent) parent.append(element);
    return element;
  };

  space.count = (value) => whole.format(Math.round(value));

  space.plural = (value, one, many) => space.count(value) + ' ' + (value === 1 ? one : many);

  // Cycles as a time on the machine's clock, with three significant digits.
  space.seconds = (cycles, hertz) => {
    if (!hertz) return '';
    const seconds = cycles / hertz;
    for (const [unit, size] of TIME_UNITS) {
      if (seconds >= size || unit === 'ns') return Number((seconds / size).toPrecision(3)) + ' ' + unit;
    }
    return '';
  };

  // Ticks at 1, 2 or 5 times a power of ten, at least `spacing` pixels apart.
  space.ticks = (start, end, pixels, spacing) => {
    const rough = Math.max(1, (end - start) / Math.max(1, pixels / spacing));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const ticks = [];
    for (let at = Math.ceil(start / step) * step; at <= end; at += step) ticks.push(at);
    return {step, ticks};
  };

  space.tickLabel = (cycle, step) => {
    for (const [unit, size] of COUNT_UNITS) {
      if (step >= size / 1000 && Math.abs(cycle) >= size) {
        const digits = Math.max(0, Math.ceil(Math.log10(size / step)));
        return (cycle / size).toLocaleString('en-US', {
          minimumFractionDigits: Math.min(digits, 3), maximumFractionDigits: Math.min(digits, 3),
        }) + unit;
      }
    }
    return whole.format(cycle);
  };
})();
