// The visible trace as a PNG of twice the size, with the names of the rows and the legend.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const RATIO = 2;
  const GUTTER = 90;
  const LEGEND = 30;

  space.picture = (viewer) => {
    const {width, scroller, kinds, groups, sources} = viewer;
    const height = scroller.clientHeight;
    const trace = document.createElement('canvas');
    viewer.paintOn(trace, RATIO);
    const whole = document.createElement('canvas');
    const {range, align, hertz} = viewer;
    const about = {
      title: 'Execution trace',
      axes: 'Across: ' + space.rangeWords(range, align, sources, hertz) + '; down: IPUs and what they do',
    };
    const head = window.tilescope_files.headHeight(about);
    const context = space.prepare(whole, width + GUTTER, head + height + LEGEND, RATIO);
    const {colours} = viewer;
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, width + GUTTER, head + height + LEGEND);
    window.tilescope_files.head(context, about, colours, width + GUTTER);
    context.translate(0, head);
    context.drawImage(trace, GUTTER, 0, width, height);
    context.font = colours.font;
    context.textBaseline = 'middle';
    context.fillStyle = colours.ink;
    let last = -Infinity;
    for (const group of groups) {
      const y = viewer.screenTop(group) + 10;
      if (y < (group.isPinned ? space.RULER : viewer.pinnedBottom) || y > height || y < last + 11) continue;
      last = y;
      context.fillText(group.name, 6, y);
      if (sources.length > 1 && group.tile === undefined) context.fillText(space.SIDES[group.side], 6, y + 13);
    }
    let x = GUTTER;
    for (const kind of kinds) {
      if (!(viewer.present & 1 << kind.number) || viewer.hidden & 1 << kind.number) continue;
      context.fillStyle = colours.kinds[kind.number];
      context.fillRect(x, height + 9, 12, 12);
      context.fillStyle = colours.ink;
      context.fillText(kind.label, x + 17, height + 15);
      x += 30 + context.measureText(kind.label).width;
    }
    return whole;
  };

  space.savePicture = (viewer) => {
    space.picture(viewer).toBlob((blob) => window.tilescope_files.save(blob, 'trace', 'png'));
  };
})();
