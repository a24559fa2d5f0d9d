// Numbers of tables and charts, formatted as the server formats them.
(function () {
  'use strict';
  const registry = window.tilescopeFormats = window.tilescopeFormats || {};
  const [STEP, UNITS] = document.documentElement.dataset?.units === 'si'
    ? [1000, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']]
    : [1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']];
  const isExact = document.documentElement.dataset?.units === 'bytes';
  const number = new Intl.NumberFormat('en-US');
  const tenth = new Intl.NumberFormat('en-US', {minimumFractionDigits: 1, maximumFractionDigits: 1});
  const isMissing = (value) => value === null || value === undefined;

  // The same as analyser.quantities.format_bytes; a test compares them.
  registry.tilescopeBytes = function (value) {
    if (isMissing(value)) return '–';
    let amount = value, rank = 0;
    while (!isExact && Math.abs(Math.round(amount * 10) / 10) >= STEP && rank < UNITS.length - 1) {
      amount /= STEP;
      rank += 1;
    }
    return rank === 0 ? number.format(value) + ' B' : tenth.format(amount) + ' ' + UNITS[rank];
  };
  registry.tilescopeExactBytes = (value) => isMissing(value) ? '' : number.format(value) + ' B';
  registry.tilescopeCount = (value) =>
    isMissing(value) ? '–' : typeof value === 'number' ? number.format(value) : String(value);
  // The first and last step of a lifetime [start, end); null for both means always live.
  registry.tilescopeLife = function (row) {
    if (!row) return '';
    if (isMissing(row.start)) return 'always';
    const first = number.format(row.start), last = number.format(row.end - 1);
    return row.end - row.start > 1 ? first + ' to ' + last : first;
  };
  const hundredth = new Intl.NumberFormat('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2});
  registry.tilescopePercent = (value) => isMissing(value) ? '–' :
    value > 0 && value < 1e-4 ? '< 0.01 %' : hundredth.format(100 * value) + ' %';
  registry.tilescopeSigned = (value) =>
    isMissing(value) ? '–' : (value > 0 ? '+' : '') + number.format(value);
  registry.tilescopeSignedBytes = (value) =>
    isMissing(value) ? '–' : value === 0 ? '0' : (value > 0 ? '+' : '') + registry.tilescopeBytes(value);
  registry.tilescopeAddress = (value) => isMissing(value) ? '–' :
    '0x' + value.toString(16).padStart(5, '0') + '  ' + number.format(value);
})();
