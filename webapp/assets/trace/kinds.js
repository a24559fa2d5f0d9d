// Kinds of steps are shown or hidden from the legend; the address holds the hidden ones.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const GROUP = 9; // kinds from here on are no kinds of steps

  // Bit k is set where kind k is hidden.
  space.hiddenKinds = (text, kinds) => {
    const names = (text || '').split(',');
    return kinds.filter((kind) => kind.number < GROUP && names.includes(kind.name))
      .reduce((bits, kind) => bits | 1 << kind.number, 0);
  };

  space.kindNames = (bits, kinds) => kinds.filter((kind) => bits & 1 << kind.number).map((kind) => kind.name);

  // What the server calls the lanes of a view.
  space.viewOf = ({view, merge}) => view === 'flat' ? 'flat' : merge === '1' ? 'calls' : 'flame';

  (space.parts = space.parts || []).push({
    paintLegend() {
      this.legend.textContent = '';
      for (const kind of this.kinds) {
        if (kind.name === 'run') continue;
        const isKind = kind.number < GROUP;
        const item = space.make(isKind ? 'button' : 'span', 'trace-legend-item', this.legend);
        const swatch = space.make('span', 'trace-swatch trace-swatch-letter', item);
        if (isKind) swatch.style.background = 'var(--trace-' + kind.name.replaceAll('_', '-') + ')';
        swatch.style.color = 'var(--trace-on-' + kind.name.replaceAll('_', '-') + ')';
        swatch.textContent = kind.letter;
        item.append(kind.label);
        if (!isKind) {
          swatch.classList.add('trace-swatch-group');
          item.append(', in shades that tell neighbours apart');
          continue;
        }
        const isShown = !(this.hidden & 1 << kind.number);
        item.setAttribute('type', 'button');
        item.setAttribute('aria-pressed', String(isShown));
        item.title = (isShown ? 'Hide ' : 'Show ') + kind.label;
        item.addEventListener('click', () => {
          const names = space.kindNames(this.hidden ^ 1 << kind.number, this.kinds);
          window.tilescope.changeView({hide: names.join(',')}, false);
        });
      }
    },
  });
})();
