// Operations: the columns menu and the selection of a row.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  /** Tabs that show the selected operation; others give way to its summary. */
  const OF_OPERATION = ['code', 'cycles', 'flops', 'debug'];
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const listed = (text) => text && text !== 'none' ? text.split(',') : [];

  clientside.operations = {
    pick(rows) {
      if (!rows || !rows.length || rows[0].key === undefined) return;
      const tab = new URLSearchParams(location.search).get('tab') || '';
      const changes = {op: rows[0].key, tab: OF_OPERATION.includes(tab) ? tab : ''};
      // Plans belong to library calls, whichever layer is listed.
      if (rows[0].layer) changes.layer = '';
      window.tilescope.changeView(changes, true);
    },

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
