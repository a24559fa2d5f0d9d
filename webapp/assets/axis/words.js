// Numbers as text, ticks of an axis, creation of elements: for all components drawn on a canvas.
(function () {
  'use strict';
  const space = window.tilescopeAxis = window.tilescopeAxis || /** @type {AxisSpace} */ ({});
  /** @type {[string, number][]} */
  const COUNT_UNITS = [[' G', 1e9], [' M', 1e6], [' k', 1e3]];
  // Round spacings of ticks in KiB and above; those of bytes are powers of two.
  const ROUND = [1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 256, 400, 500, 512, 1024];
  const whole = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});

  space.make = (tag, className, parent) => {
    const element = document.createElement(tag);
    element.className = className;
    if (parent) parent.append(element);
    return element;
  };

  // A small button of a figure. Its title is its name, and so begins with a text of letters.
  space.tool = (parent, text, title, act) => {
    const button = space.make('button', 'chart-tool', parent);
    button.type = 'button';
    button.textContent = text;
    button.title = title;
    button.setAttribute('aria-label', title);
    button.addEventListener('click', act);
  };

  space.count = (value) => whole.format(Math.round(value));

  space.plural = (value, one, many) => space.count(value) + ' ' + (value === 1 ? one : many);

  // Ticks at 1, 2 or 5 times a power of ten, at least `spacing` pixels apart.
  space.ticks = (start, end, pixels, spacing) => {
    const rough = Math.max(1, (end - start) / Math.max(1, pixels / spacing));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const ticks = [];
    for (let at = Math.ceil(start / step) * step; at <= end; at += step) ticks.push(at);
    return {step, ticks};
  };

  // Round ticks from 0 to at least a number of bytes, about `most` of them.
  space.byteTicks = (highest, most) => {
    if (!(highest > 0)) return [0];
    const rough = highest / most;
    let unit = 1;
    while (unit * 1024 <= rough) unit *= 1024;
    const rounds = unit > 1 ? ROUND : Array.from({length: 11}, (_, power) => 2 ** power);
    const size = (rounds.find((round) => round * unit >= rough) || 1024) * unit;
    const ticks = [0];
    while (ticks[ticks.length - 1] < highest) ticks.push(ticks.length * size);
    return ticks;
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
