// Operations: the columns menu and the selected operation.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  /** Tabs that show the selected operation; others give way to its summary. */
  const OF_OPERATION = ['code', 'cycles', 'flops', 'debug'];
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const listed = (text) => text && text !== 'none' ? text.split(',') : [];

  // Choosing an operation shows it: a tab that is not about it gives way.
  let last = '';
  window.addEventListener('tilescope:address', () => {
    if (location.pathname !== '/operations') return;
    const query = new URLSearchParams(location.search);
    const op = query.get('op') || '', tab = query.get('tab') || '';
    const isNew = op !== '' && op !== last;
    last = op;
    if (isNew && tab && !OF_OPERATION.includes(tab)) window.tilescope.changeView({tab: ''}, false);
  });

  clientside.operations = {
    // The row of the selected operation.
    mark: (view) => view && view.op ? [view.op] : [],

    // The menu shows the columns of the address, and writes them there.
    showColumns(view, shown) {
      const wanted = listed(view && view.columns);
      return same(wanted, shown) ? clientside.no_update : wanted;
    },

    chooseColumns(chosen, view, all) {
      if (!chosen || !view || location.pathname !== '/operations') return;
      // In the order of the table, so that equal choices have one address.
      const text = all.map((one) => one.value).filter((name) => chosen.includes(name)).join(',');
      if (text === view.columns) return;
      window.tilescope.changeView({columns: text || 'none'}, false);
    },
  };
})();
