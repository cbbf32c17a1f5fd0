/** The plugins of @kai/jupyter. One that fails takes no other down. */

import { launcherPlugin, statusPlugin } from './plugins/extras';
import { mainPlugin } from './plugins/main';
import { modelPlugin } from './plugins/model';
import { bannerPlugin, chipPlugin } from './plugins/notebook';

export { IGpuModel } from './tokens';
export default [modelPlugin, mainPlugin, statusPlugin, launcherPlugin, chipPlugin, bannerPlugin];
