/** The person's settings, readable before they are loaded. */

import type { ISettingRegistry } from '@jupyterlab/settingregistry';

export const PLUGIN_ID = '@kai/jupyter:plugin';

/** What is set, or nothing yet: the schema's defaults are the reader's. */
export interface ISettings {
  get(name: string): unknown;
}

export function loadedSettings(registry: ISettingRegistry | null): ISettings {
  let loaded: ISettingRegistry.ISettings | null = null;
  registry?.load(PLUGIN_ID).then(
    settings => {
      loaded = settings;
    },
    () => {
      loaded = null; // an unreadable settings file leaves the defaults
    }
  );
  return { get: name => loaded?.get(name).composite };
}
