// Pictures and tables of what is drawn, saved as files.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const SCALE = 2;
  const LINE = 18;

  // The plot at double size, below its title, report and axes, with its legend under it.
  space.savePicture = (plot, name, about) => {
    const files = window.tilescope_files;
    const head = files.headHeight(about);
    const {colours, entries = []} = plot;
    const [width, height] = [plot.box.clientWidth, plot.height];
    const drawn = document.createElement('canvas');
    plot.paint(drawn, SCALE);
    const whole = document.createElement('canvas');
    whole.width = width * SCALE;
    const context = whole.getContext('2d');
    context.font = colours.font;
    let [x, rows] = [space.LEFT, entries.length ? 1 : 0];
    const places = entries.map(({label}) => {
      const needed = context.measureText(label).width + 32;
      if (x + needed > width && x > space.LEFT) { x = space.LEFT; rows += 1; }
      x += needed;
      return [x - needed, rows];
    });
    whole.height = (head + height + rows * LINE + 6) * SCALE;
    context.scale(SCALE, SCALE);
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, width, head + height + rows * LINE + 6);
    files.head(context, about, colours, width);
    context.drawImage(drawn, 0, head, width, height);
    context.font = colours.font;
    context.textBaseline = 'middle';
    entries.forEach(({label, colour}, i) => {
      const [left, row] = places[i];
      const y = head + height + (row - 0.5) * LINE;
      context.fillStyle = colour;
      context.fillRect(left, y - 5, 11, 11);
      context.fillStyle = colours.soft;
      context.fillText(label, left + 16, y + 1);
    });
    whole.toBlob((blob) => files.save(blob, name, 'png'), 'image/png');
  };

  // Text that a spreadsheet takes for text: quoted, and never a formula.
  space.cell = (value) => {
    if (typeof value === 'number') return String(value);
    const text = String(value ?? '');
    const safe = /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };

  space.csv = ({columns, rows}) => [columns, ...rows]
    .map((row) => row.map(space.cell).join(',')).join('\r\n') + '\r\n';

  space.saveTable = (table, name) => {
    const blob = new Blob([space.csv(table)], {type: 'text/csv;charset=utf-8'});
    window.tilescope_files.save(blob, name, 'csv');
  };
})();
