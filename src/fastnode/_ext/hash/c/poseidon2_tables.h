/* Written by scripts/make-poseidon2-tables, which explains every table.  Do not edit.
 *
 * All elements are in Montgomery form, limbs from the least significant one up. */
#ifndef FASTNODE_POSEIDON2_TABLES_H
#define FASTNODE_POSEIDON2_TABLES_H

#include <stdint.h>

/* In poseidon2_tables.c. */
#define SHARED extern __attribute__((visibility("hidden")))

#define ROUNDS_FULL_FIRST 4
#define ROUNDS_PARTIAL 56
#define ROUNDS_FULL_LAST 4

#ifdef POSEIDON2_TABLES_PORTABLE
/* ---- portable kernel: 4 limbs of 64 bits, R = 2^256 ---- */

static const uint64_t P64_MODULUS[4] = {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029};
static const uint64_t P64_MODULUS_2[4] = {0x87c3eb27e0000002, 0x5067d090f372e122, 0x70a08b6d0302b0ba, 0x60c89ce5c2634053};
static const uint64_t P64_R_SQUARED[4] = {0x1bb8e645ae216da7, 0x53fe3ab1e35c59e3, 0x8c49833d53bb8085, 0x0216d0b17f4e44a5};
#define P64_NEGATIVE_INVERSE 0xc2e1f593efffffffULL  /* -1 / modulus mod 2^64 */

static const uint64_t P64_FULL_FIRST[4][4][4] = {
    {
        {0x40e29857eccba526, 0x78b5d11f628bb63c, 0x90a91f8124d71c1d, 0x22b90b99257c701f},
        {0xdda103bcd5e88168, 0xcadec275563908df, 0xcb42faa49bda666a, 0x12c1e60e14878465},
        {0xe2ee3f59de1800c2, 0xc7979d60539090ba, 0xb17490108efd09c7, 0x157ae4cd6c889238},
        {0x8d47060cfdf35e56, 0x24d3c6c56012e0bb, 0x23e529e2d9c7f211, 0x0ca313c0e7feeb7c},
    },
    {
        {0x969ae5874ec24b7c, 0x178d4318d4b3aa33, 0x6c88dcc609ed64f8, 0x2f010ac693dc51cf},
        {0x57fb28a4e65e43e8, 0x8879374e40bb2e20, 0x2edbd9642db3a00b, 0x03519d1e42f98e5e},
        {0x6cd497820ea1bdea, 0x7547fcc6a94b2b4d, 0xd170eabdd0b9a60b, 0x2d4d4875bba571b3},
        {0x6ef12da5bec195b2, 0x1949053b40632693, 0x52a07adc23aaa26c, 0x2462f2ed9e08bb84},
    },
    {
        {0x86b215d7eed56c26, 0x8e8a775ab44e8536, 0x4b28315db24328ac, 0x2284e6859b91a22b},
        {0x24435d7bbcecf683, 0x30558031784b101a, 0x8152ba72043ca93a, 0x2ef0fea092a1bf2f},
        {0x31f7ebe8ea71df23, 0x5a40c44d8b396ad0, 0x12103e68c9964844, 0x2fbf0a0711796f09},
        {0xd171b165b9a474d2, 0xde9cc2290d05e663, 0xaaa87c63209d7a7a, 0x138033c1c13594ca},
    },
    {
        {0x7bfd9fcbd4ed1036, 0x5d413eaa832eba40, 0xb509d471e9b81cf4, 0x1287cef711f48909},
        {0xaa8460cf946b6f1f, 0xd383ed881df9301d, 0x13dab19464f23a61, 0x03edc8f24d94f496},
        {0x8fb0a2baec4a0545, 0x62950a986fa7e269, 0x8b2e63ef08420ccb, 0x24357c1c0ff8ad46},
        {0xebc3984647d708de, 0xfa8876a528054f45, 0x529aa21b353025ae, 0x11e5fb7b548a5daa},
    },
};

static const uint64_t P64_FULL_LAST[4][4][4] = {
    {
        {0xd452149f1a7623ba, 0x13d73472905865d9, 0x68860941a82dff72, 0x00f33f4676757a07},
        {0x0e60a44a6d294f41, 0x03b13324ddc4baa0, 0x4c7ce58cc39ab341, 0x139be6cb2abe19c0},
        {0x9ee46be37fa5c783, 0x4b80d6e92fa0605d, 0xe18d39eaa0b58710, 0x019935cf03fe6d3b},
        {0xa11eecbd6f646bef, 0xdf805be13d0c2ba1, 0xb1843fb18f8d6723, 0x0ecac0e06c90fbd4},
    },
    {
        {0x20ca3789db7f08aa, 0x8d4280081bb2f0df, 0x37f8a0a772d173e5, 0x2704fea2f81ae93b},
        {0x0b57a210d5ab61aa, 0xb5bcedca8189a1ea, 0x1cdbbf1ab293e0ac, 0x100b4344f9ed48ae},
        {0x907e5f4a9c057fc4, 0x575a1e1729d2396b, 0x2f81eb61b02a0d47, 0x201c9d0d354d25f3},
        {0x6e0d1e92b19775e8, 0x1b0ff212c85487ae, 0x77fa05e5ed730bb5, 0x0da570e83ab6b8d0},
    },
    {
        {0xe33228d2d96b8f30, 0xb89a3bb8fb9be93a, 0x35e9eca0bee565b1, 0x273df6b0ae156020},
        {0xa436a2acdb5ac551, 0x8514ac3b41c606e4, 0xc28036d7cdf04c60, 0x1ea071117eb66e66},
        {0x6126235d108821f4, 0x4a7765cfee75f731, 0x743ed0ff07674e14, 0x05925bb80a3cc48c},
        {0x7a92010e5b2e74a1, 0xfee649f03b0684db, 0x7aa7ccf81a3caab2, 0x23720c2cfdfbc79d},
    },
    {
        {0x460a85496e304e37, 0xdd8f527562040055, 0x40a70979fd5a7579, 0x1f03fbf1087a3e1c},
        {0x0b43e0bf81c186ed, 0x47ce7c0961079afb, 0xb9f3357e2e55217d, 0x17e4fd8d6775a696},
        {0xb74d133c633b1599, 0x4bf76b0fba2d94e2, 0xfec7cce4c5cd67f8, 0x183bceaeea7f1aaa},
        {0x62a251f58bfc0bd8, 0xa47572f6ebc5885b, 0x37c60ff8efcf2b6d, 0x1fd8d931dc1b5f33},
    },
};

static const uint64_t P64_ENTER_X[4] = {0xe1bf995c12536466, 0x38a57fa2897f3d03, 0x02da340f5000eb01, 0x2191cab65818ec6d};

static const uint64_t P64_ENTER_CONSTANT[4] = {0xb872fb19da1f3b7b, 0x99b478848bf5b78c, 0x9526e86afa7f4427, 0x1d29e545fa753b24};

static const uint64_t P64_ENTER_Y[3][4][4] = {
    {
        {0xc79e7e8674f7788c, 0x17a72581f1a2d7c3, 0x9e31352c6950e68d, 0x26c4964a6bbe6d83},
        {0xe861bb7d41f1d393, 0x69de286835a6df10, 0xcc5c7665fecd5a80, 0x197c018a6e34354e},
        {0x1eef416cbcfddb91, 0x9defb59df21576f5, 0x8262d0e2ea9cb1b9, 0x135850adf8e62350},
        {0xe9781cd0a65234e2, 0x588b81716b368537, 0x0a141bf98f8abeb0, 0x21fea8254e6690e5},
    },
    {
        {0x3fcc9c33716b1e4b, 0x68ecd3d8baba642a, 0x1b39c067a13222bd, 0x19a214ed2ae5ac24},
        {0x4198ed782faebcac, 0xc605d129d76aa19c, 0x5ad1738e22e29419, 0x2c13d84dc62fc606},
        {0x8321050411463cd5, 0xc706a429e30e03ee, 0xee2a52eb2e351df3, 0x257ca5c209cdb9ac},
        {0xa51548a176613f23, 0xae7178d1bb50a27f, 0xaf8358dde3361cc4, 0x08933b952da90656},
    },
    {
        {0x36564b184a893ca1, 0x3b1faa44fa8e79cb, 0xdd53b68faadaf75c, 0x0626f0d89a3c72d9},
        {0x10f5edda0896ecdc, 0x2fe567778a83f57a, 0x124162c54325373f, 0x03618b3d7b6ee672},
        {0x649ed7314f23e5fc, 0x3d4fc799743eda38, 0x0173e317a8a3d89a, 0x079abd960538875a},
        {0x31cd0663493e11fc, 0x7c007c8db8ac35ae, 0x9d2191bd0bba4429, 0x20618d201b5954f6},
    },
};

static const uint64_t P64_ROUND[6][4] = {
    {0x86873b49942e39f4, 0x4dc1320e8a284023, 0xa9c0ac921a41365f, 0x14f6d8f68e84197d},
    {0x5e9a609954b2d388, 0x26f837abfed2f937, 0xbc7c4f393d382c86, 0x008d600dcd2e16ee},
    {0xa64e5e49f1aa8c2a, 0x1f0d88eca6d00998, 0x2018b483133111e4, 0x2d18d3a7298afc1b},
    {0x84850a5c97aa54b7, 0x221aca9294c640a9, 0x7cc54ba3cc731dec, 0x1fe84ef9b53dfde9},
    {0x4cf03765c27890da, 0x71750de1a163e45c, 0x30a0173cbffad707, 0x01932f86f072e839},
    {0x0be313f7968188a1, 0x56ac0150343088a5, 0xcc3142970bcfafb7, 0x0859755ad5dd7b2b},
};

SHARED const uint64_t P64_ROUND_CONSTANTS[56][4];
#ifdef POSEIDON2_TABLES_HERE
const uint64_t P64_ROUND_CONSTANTS[56][4] = {
    {0x539bfe61f23df3c1, 0xabe43246e7f56c66, 0x7b94c0c67f8829b3, 0x1772a581de48ea0a},
    {0x769fa3678872fc61, 0xc5f732fdf96deb88, 0xedc340124eadc041, 0x09e8e948aaede623},
    {0x73c192ecef7cd04c, 0x8a43b1d77812ef6c, 0xe7152c8e4adde961, 0x28b179d402575a56},
    {0x3a255fafddde1425, 0x6ccf20a09463d764, 0x5f45c3a2046258c3, 0x1af59f827fd18db6},
    {0x18c37742e949508b, 0x26fe8ff6e071fe24, 0x3cd5624ce9fa68bd, 0x1cf0d191299ae1c4},
    {0x1f0926d2382ef765, 0xf11528c12efab7c0, 0xb05d4ee50aae215c, 0x06fe86d5ddd82093},
    {0x00d28bfc7c5a0fcc, 0x89aa8d1a8dbee755, 0xaf6a0f786db33849, 0x14f8552e9aaba767},
    {0x53fc685d98b811ea, 0xb73e46b23849085a, 0x9e08fb93586ac103, 0x12b066e0af671a42},
    {0x317c8083278faa82, 0x5772e0f58d4a9460, 0xaa5492d259cc24ce, 0x205bdd43aa0ff19a},
    {0x4c2960ff35ebc7e2, 0x459d44d4e9cf10bf, 0x494a6380f674cb8f, 0x0e3a79cdad21e337},
    {0xd42b9fc052d77d77, 0x9c358f0939db7abe, 0xc6e07d2245e26c93, 0x2f2e5998a2b4d47f},
    {0x92d29b57a57e23d7, 0xffaf79f6d786a94c, 0xda173e33f3d6d991, 0x1cec4e4f982eb829},
    {0x7e2936c372d56916, 0xa2b92d6099d68e5f, 0xe67b495c6b0c46be, 0x26deb58d61aee550},
    {0xf52976399a283d93, 0x8c167d5c53090a27, 0x294d7a3b474b9a17, 0x0b6ccddc202686da},
    {0x9129a883968696b8, 0x8e61664b929e98ae, 0xb4e9b2e7eb541e67, 0x2fd9523e095000e0},
    {0x24dd54049f8b5445, 0x94fb200b89357e19, 0x2296ed704b3ee993, 0x0b7ff7e353bee935},
    {0x7f8ff185ad4c64ac, 0x269b7090d83923cb, 0xecb6c086cb397099, 0x08544fcaac7dbf39},
    {0x6ce8131dc33fc565, 0x81574a18166bceff, 0xe247046a0788cf8e, 0x286d5aa91607e399},
    {0xb59cbf610f5a1b69, 0x23dd25272414e49c, 0x9f7dbf4dab75c215, 0x20ee4d2be34790f5},
    {0xed07d18090ea87ee, 0x02f610ec8d05d17a, 0xd13dc4f76139938d, 0x0ec3c5577b3b3d25},
    {0x3231a1efb8486bad, 0x848760d24fb4aed6, 0x8e87293692b82bbc, 0x0d63c35c319f6b48},
    {0x4c95919d4cb883f9, 0x3fec9151c188fdc2, 0xb15c69ba47ddd583, 0x2bd5bbaf55370bc4},
    {0x1cfe53beb11783eb, 0x87b055d54c9a43c0, 0xa3a109dc23e0025f, 0x031dec01d0fdfce5},
    {0xe2c8c6d92fcdb722, 0x855d37b9ff0dbfba, 0x1f2125213c8e7c31, 0x01899e4bc93f75bd},
    {0xb7a036f360de51d2, 0x0a6b91c995d828c5, 0x137a81de0295e4ab, 0x08eeded26a0c4cce},
    {0xd16390b9193cefac, 0x0b6fce388c2eacf9, 0x620a5eee8f0122e4, 0x303715e04e33ab7b},
    {0xfcda10f3c1b39893, 0x0904ecea9a795743, 0x64173f919a098a50, 0x0873d4e987a4ce84},
    {0xb37c662643b6dc14, 0x6bd7fbaf652b61d8, 0x8d52f58452a1fa51, 0x19d6471c4561567f},
    {0x477a785c7ec3ca9f, 0x4abddf9dced2a1a7, 0x989c8bf54a05be81, 0x17f228971e46e712},
    {0xd2aebf130b62a81d, 0x5464bcd2a331d7db, 0x655bef429ba02508, 0x19d13486cd8ff9b0},
    {0x08fb3ba0c1a45793, 0x8dcf0841f9891ef5, 0x65139e5558df7bcd, 0x172caa546bf3c1fe},
    {0x3e84c60c41e6b270, 0x1a5600735682c93d, 0x9764efbd7e1105ce, 0x2b9ddbecdce393f7},
    {0x323a78c6b38bb03e, 0x72e93f995fb933e4, 0x5bb68640afdf22de, 0x29a15c5bc120e69d},
    {0x7015577c3a79c70b, 0x56bbd32dfa2373fb, 0x035a7cfaa3111c8c, 0x265fe1097c0d04ec},
    {0x97aa364be4d5aaf4, 0x84fc4dc637873343, 0x972aa8d8f3ee59f9, 0x203b7b83df16d84d},
    {0xc5758043323c5efe, 0x72bc7755cde8d3c5, 0xfe6c076cc3df2e95, 0x0446ac8e62abbeb0},
    {0x9c990f5843f578d8, 0xab8c2327610c3aa0, 0x9298dff380fc245c, 0x2b0604a05778652f},
    {0xef0cbc1c9a9d8d00, 0x32ce1aea003c3cbd, 0x3d3e7336ed3567d0, 0x11483005f9014f1b},
    {0xadd3bf8c1e4e8a9f, 0x52e07049686dd860, 0x72a002d1199bc98c, 0x15c65733641f542c},
    {0x782a0fa4821c50c4, 0x7554727d7414bdec, 0xde2b906e4856535b, 0x2658c28b6a2e00ce},
    {0x5577dbd6d15761dc, 0x2c39ef3832cd0875, 0x7653eecdd59933ae, 0x0d41d57f876c4a8d},
    {0xededc2177f539cac, 0x9da17136fd6697ee, 0x3def16838d9bc986, 0x0a1ef5e96034f44f},
    {0xac1a333fd405f60b, 0xabd482627286d523, 0xc0b4e12d00d617de, 0x0d47e2a0a9974d0f},
    {0xe2d82b00af712221, 0x29c8a58c52c1381e, 0x4d4c02e3a141e9b6, 0x136c92931f8af173},
    {0xc57c2c7447b01ebf, 0x26f3d0c13a2c44c2, 0x51feb2b43efe9b53, 0x2c018c03024b78ef},
    {0x6a47615ad4e72430, 0x01cabf53f673a0f3, 0x94513206a1a1bf10, 0x020a5ae5574e4f8b},
    {0xae83899738ef878e, 0x0bcc971fe597d287, 0xa20c50c155306b30, 0x30542ba0c21887b4},
    {0xfb65877e5b983966, 0xbf2ff02064431915, 0x33da7f6309a11693, 0x202b2fa49dc94b6b},
    {0x48bdfbe6deb6cc2e, 0xe4718688458c9d10, 0x4a34ffc60811cce6, 0x02134c368cc9d42e},
    {0x00898e6e919864c1, 0xeabe23fc50fdff83, 0x38f53b7829ff4873, 0x1602ee8388a82afc},
    {0x4ac12f32fbab2b67, 0x393fa1b7f287a93a, 0x151896757fc16d43, 0x140f660078080161},
    {0x90f265d56548c809, 0x6f39b0f203a010bd, 0x679e4a4b11c60fc2, 0x2d4ae5821836342b},
    {0x890414e0fa4c411f, 0x601bd7ac6d5039d3, 0xab54af1dc0f16a9f, 0x1fe85265afd705df},
    {0x4d7da890a70aca8b, 0x930d096cd14c4de4, 0x64b8b23656e04d89, 0x1349df2066d7e584},
    {0xa173d9ff3e171809, 0x98d7eb13d90fbf1e, 0xe2d429cc47403c21, 0x1b1f79ae5eca2f30},
    {0x77bada400729c916, 0x49a621e8d0025c25, 0xecdcdfadb71966f2, 0x097a8ed4bc135006},
};
#endif

static const uint64_t P64_LEAVE_X[4] = {0x4e5cb6456b88d8cd, 0xf23ca98fd1a90f54, 0xae75c145bcdb68bd, 0x00af9b2ce219da10};

static const uint64_t P64_LEAVE_V[3][6][4] = {
    {
        {0x0ae8bc990ce01c05, 0x1e4bf8e97a086dc2, 0x2261e145f4537bd1, 0x2a8293b409d939a8},
        {0x8e2d411aadd03f65, 0xe25703e13863c152, 0x124651b5f3e45d8d, 0x01a273ffed9767a5},
        {0x2feb7b5ddc81c6b2, 0x232ccbfd77988a63, 0x415700967da6af2f, 0x02f2742b7e8c24b8},
        {0x64c17bd8426f271d, 0x0a3ab3fba075ce91, 0xbb915532e686551e, 0x28ec61d52173280e},
        {0xf25e58ca4ec14a5e, 0x950502b6b6ec1dd6, 0x0443a0e74963a9f4, 0x24ab5498fff184c8},
        {0xf2dfecbe09aa880f, 0xb146f245e051ce41, 0x76c5a3c7bf328f66, 0x0b9bf041f4493238},
    },
    {
        {0x1dc5d2924e335c13, 0x59fce9518776b6a5, 0x17c7f14fd1a857f6, 0x1593a32f4fe22226},
        {0xb9625cb38fbb6d74, 0xd544a44060b66556, 0x7d13cc3d48b76843, 0x2b88874f9a55843e},
        {0x5f91bc1f32dc4ba1, 0x4540a2ab9a1bde69, 0xbfd747d6e1bb5dfc, 0x0419e34528cf9534},
        {0x64c17bd8426f271d, 0x0a3ab3fba075ce91, 0xbb915532e686551e, 0x28ec61d52173280e},
        {0x0d0e0e5fc741a9e1, 0x6c0625795b5f5129, 0x8daa3fe5bef3f843, 0x0ea1f387501a4032},
        {0x8eb6809f48845f1e, 0x9fe956777c905633, 0x58ba1ca8f442baa1, 0x2b05daed2e6a8bc1},
    },
    {
        {0x2a5c8f2225f7a4a3, 0x92af679522e1e73c, 0x13622f3e912155b7, 0x0075d312f3c4b87b},
        {0x5258949be2d524bd, 0xac6d8451c4047209, 0xb1fd079ad72b380f, 0x0b7e15b47abc5415},
        {0x3b8573b54d3c7c03, 0x0a995b527aea7f64, 0x600caa2459fac8d4, 0x21e95783460e9623},
        {0x64c17bd8426f271d, 0x0a3ab3fba075ce91, 0xbb915532e686551e, 0x28ec61d52173280e},
        {0xd135f7313aae33db, 0x13a80906d9f47339, 0x8f4a145e54a40e1c, 0x2ea6eae4b34b3d93},
        {0xc325d8bcb44355ab, 0x38fab1e5624c6f9b, 0x63c826b71e283d44, 0x11dd216b4b79fb72},
    },
};

static const uint64_t P64_LEAVE_CONSTANT[3][4] = {
    {0xd6048c4a0a00dc17, 0x90b9c67ea9dc9845, 0x8bf9ac4f3caa3403, 0x2e9b351aef510e69},
    {0xe8931bbcbdca909a, 0x3a5ba9d2802528fb, 0x53393535fbbfb0d0, 0x0afd787d5bd0b5a5},
    {0x770a45ca1ce46fd9, 0x95d4fbfc9bc5e42b, 0x1ea1257e90046ab1, 0x2d1aa915818390f8},
};
#endif

#ifdef POSEIDON2_TABLES_VECTOR

/* ---- AVX-512 IFMA kernel: 5 limbs of 52 bits, R = 2^260 ---- */

typedef struct {
    uint64_t limb_mask;
    uint64_t negative_inverse; /* -1 / modulus mod 2^52 */
    uint64_t zero[5];
    uint64_t one[5];
    uint64_t modulus[5];
    uint64_t r_squared[5];
    uint64_t fold[4][5]; /* 2^-208, 2^-156, 2^-104, 2^-52: what limbs 0 to 3 of a product count after division by 2^208 */
    uint64_t multiples_254[5][8]; /* limb i of the largest multiple of the modulus in j * 2^254: at [i][j] */
    uint64_t multiples_256[5][8]; /* limb i of the largest multiple of the modulus in j * 2^256: at [i][j] */
    uint64_t full_first[4][4][5];
    uint64_t full_last[4][4][5];
    uint64_t enter_x[5];
    uint64_t enter_constant[5];
    uint64_t enter_y[3][4][5];
    uint64_t round[6][5];
    uint64_t round_constants[56][5];
    uint64_t leave_x[5];
    uint64_t leave_v[3][6][5];
    uint64_t leave_constant[3][5];
} vector_tables;

SHARED const vector_tables VECTOR_TABLES;
#ifdef POSEIDON2_TABLES_HERE
const vector_tables VECTOR_TABLES = {
    .limb_mask = 0xfffffffffffff,
    .negative_inverse = 0x1f593efffffff,
    .zero = {0x0000000000000, 0x0000000000000, 0x0000000000000, 0x0000000000000, 0x0000000000000},
    .one = {0x0000000000001, 0x0000000000000, 0x0000000000000, 0x0000000000000, 0x0000000000000},
    .modulus = {0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131},
    .r_squared = {0x0b852d16da6f5, 0xc621620cddce3, 0xaf1b95343ffb6, 0xc3c15e103e7c2, 0x00281528fa122},
    .fold = {
        {0x22e2400e2f27d, 0x323b46ea19686, 0xe6c43f0df672d, 0x7824014c39e8b, 0x00c6b48afe1b8},
        {0x0e8c656567d77, 0x430d05713ae61, 0xea3ba6b167128, 0xa7dae55c5a296, 0x01b4afd513572},
        {0x74eccce9a797a, 0x16ddcc30bd8a4, 0x49ecd3539499e, 0xb23a6fcc592b8, 0x00e3bd49f6ee5},
        {0x82e644ee4c3d2, 0xf93893c98b1de, 0xd46fe04d0a4c7, 0x8f0aad55e2a1f, 0x005ed0447de83},
    },
    .multiples_254 = {
        {0x0000000000000, 0x1f593f0000001, 0x3eb27e0000002, 0x5e0bbd0000003, 0x9cbe3b0000005, 0xbc177a0000006, 0xdb70b90000007, 0x1a23370000009},
        {0x0000000000000, 0x4879b9709143e, 0x90f372e12287c, 0xd96d2c51b3cba, 0x6a609f32d6536, 0xb2da58a367974, 0xfb541213f8db2, 0x8c4784f51b62f},
        {0x0000000000000, 0x181585d2833e8, 0x302b0ba5067d0, 0x4840917789bb8, 0x786b9d1c90389, 0x908122ef13771, 0xa896a8c196b59, 0xd8c1b4669d32a},
        {0x0000000000000, 0xa029b85045b68, 0x405370a08b6d0, 0xe07d28f0d1238, 0x20d099915c908, 0xc0fa51e1a2470, 0x61240a31e7fd8, 0xa1777ad2736a8},
        {0x0000000000000, 0x030644e72e131, 0x060c89ce5c263, 0x0912ceb58a394, 0x0f1f5883e65f8, 0x12259d6b14729, 0x152be2524285b, 0x1b386c209eabe},
    },
    .multiples_256 = {
        {0x0000000000000, 0x9cbe3b0000005, 0x397c76000000a, 0xd63ab1000000f, 0x92522b0000015, 0x2f1066000001a, 0xcbcea1000001f, 0x87e61b0000025},
        {0x0000000000000, 0x6a609f32d6536, 0xd4c13e65aca6d, 0x3f21dd9882fa3, 0xf1fc363bea918, 0x5c5cd56ec0e4f, 0xc6bd74a197385, 0x7997cd44fecfa},
        {0x0000000000000, 0x786b9d1c90389, 0xf0d73a3920712, 0x6942d755b0a9c, 0xf9c3fa44c420d, 0x722f976154597, 0xea9b347de4920, 0x7b1c576cf8092},
        {0x0000000000000, 0x20d099915c908, 0x41a13322b9210, 0x6271ccb415b19, 0x236c1e95b7f89, 0x443cb82714892, 0x650d51b87119a, 0x2607a39a1360b},
        {0x0000000000000, 0x0f1f5883e65f8, 0x1e3eb107ccbf0, 0x2d5e098bb31e8, 0x3f83a6f6c7912, 0x4ea2ff7aadf0a, 0x5dc257fe94502, 0x6fe7f569a8c2c},
    },
    .full_first = {
        {
            {0x3f8237cba5255, 0xd8edc38d86237, 0xce2f5d6d12216, 0x202e1f1ef93ab, 0x017415aa2aaa5},
            {0x47a55be88167a, 0xa28937ea9642c, 0x49e547dbcb4b5, 0x8562624e0802b, 0x009c48a30014e},
            {0x63e9251800c19, 0x09e4f6f7b553b, 0x54731f0600e7c, 0xc2670d17190b6, 0x004f027b2a02d},
            {0x88a801f35e55c, 0x341a484973c4e, 0x679bf9dac6ccb, 0x371b5d1187539, 0x008a00242fb28},
        },
        {
            {0x0f4c9dc24b7b1, 0x4e295d0ab66f7, 0x842220c1dc995, 0xba84fbd9b6af0, 0x01a3013ae0bdc},
            {0x094ba75e43e7f, 0x9b91f971743bd, 0x9b8a85b5f5f8c, 0x45b9356d508c5, 0x004b583714e67},
            {0xe0a09ca1bde92, 0x73ec8e8ce516e, 0x6878b9f21a918, 0x58f502aadbe1f, 0x02f583d1369a0},
            {0xb576cac195b14, 0x4e51812267c07, 0x89a0263b22170, 0x3650864469342, 0x0017b81775238},
        },
        {
            {0xbd0239d56c255, 0x8e09f07d2a806, 0x3a3bec82e6c7a, 0x40e9c71017039, 0x013ff096a0bf8},
            {0x87410becf6821, 0xd862d3691f49f, 0xd36662daa4d66, 0x90864877916ea, 0x0192f514df833},
            {0x15ae3971df221, 0x9991b91480254, 0x2d056d04901a8, 0x8e1f544fd0db0, 0x0261007b5e5ae},
            {0xf54e3fa474d1a, 0xddf605c2d57fc, 0x0cf957ef894b0, 0x8bb058a623eb0, 0x015a9656acc2f},
        },
        {
            {0xe3b45aed1035a, 0xf5589300a0288, 0x279bd16e2dc78, 0xcfa0febba4d79, 0x0062318bfd81e},
            {0x4176556b6f1ef, 0x3965d99149646, 0xda24dc0100af0, 0xa937855ad38fc, 0x00e7840b1f81d},
            {0x49e5374a05445, 0x69bf86505b105, 0x39200b56f15ae, 0xf29dc7734018f, 0x02f0862d15268},
            {0xfb880cd708ddb, 0xe81fb5c18868c, 0xb7ba11ddf83e0, 0xb9d49018c522c, 0x02c6a2f76e2ad},
        },
    },
    .full_last = {
        {
            {0x149f1a7623ba0, 0x2905865d9d452, 0x2dff7213d7347, 0xa0768860941a8, 0x00f33f4676757},
            {0xe832f3294f40a, 0x9b01f306994eb, 0x0a321e149dbc0, 0xdb0a75ecb6853, 0x01764960164b7},
            {0x6be37fa5c7830, 0x92fa0605d9ee4, 0xb587104b80d6e, 0xd3be18d39eaa0, 0x019935cf03fe6},
            {0x6f5873646beec, 0xf1e9dcf7d5026, 0x2d110c957361c, 0x3ca43702e43ef, 0x02b1ad43b4449},
        },
        {
            {0xbf5ae77f08a94, 0x1c067dc722de0, 0xb0719faf1b91d, 0x11bedbc6c5e91, 0x02b9c3cccf35b},
            {0x05529aab61a9b, 0x3db7faebca621, 0x1b750f992cb53, 0x6a11342a951aa, 0x00ebeac1138dc},
            {0x25ce26057fc36, 0x9ddbe5310c611, 0x39360d1e39ace, 0x1d91c4fbfcf9f, 0x01ddec05688e2},
            {0xa12db59775e7c, 0x0a9e62b8a1d14, 0x12b59dd102f80, 0x0c609e5f4784d, 0x018c5d4b826a5},
        },
        {
            {0xb0a3e56b8f2f4, 0x2a050d4cdf048, 0xc4636bda734d8, 0x800ebadb857dd, 0x02f2bbda85302},
            {0x6930655ac5506, 0xdf5b22089d9c9, 0xff75264bf43b0, 0xa4caf4e0b45bc, 0x0061c009b1f76},
            {0x0403d18821f3f, 0xb66da60284ce8, 0x4f388e77f4274, 0xa89d8b9cca39f, 0x028c16d0dc29a},
            {0xa838a62e74a05, 0xe675707779be6, 0x33bdf2f3429a3, 0x980cbf09d0aa1, 0x022d163e0329a},
        },
        {
            {0x4bccf8304e366, 0x815f019fa7b9d, 0x699e3fa46ee14, 0xa022d74dde7ec, 0x00c54ae93bbb3},
            {0x054ec8c186ec9, 0x9abc679bb7d91, 0xac8ad48637c66, 0x084795016fe55, 0x02b91b3b24eff},
            {0x18726b3b15988, 0xb7d50dc9a155c, 0x0cbbc9b7dd76e, 0xa96229faa0985, 0x0009a77579e64},
            {0x187915fc0bd76, 0x99fb1a2009835, 0xde54336b5501c, 0xb192493e466de, 0x019a282a0f5c5},
        },
    },
    .enter_x = {0x40865d5364655, 0x0b5cfbfa00314, 0xf7fe412d01cff, 0xe5054230421d6, 0x004cd4c75d46c},
    .enter_constant = {0xe0f6a31f3b7a7, 0xbc77d683b0243, 0xa68273331745d, 0x10d1d79c13451, 0x01f179255bc95},
    .enter_y = {
        {
            {0x065780f7788b4, 0xb9657c356d4b5, 0x2fe4473980374, 0x56453f500e388, 0x02795b7442d93},
            {0xc0b349f1d3928, 0x3f8ca26c84670, 0x0cae51d5c4344, 0x539f034538abe, 0x0149da50fd9b6},
            {0x855542fddb90a, 0x2c46fecbea57a, 0x0c3096aedc3e8, 0x740dd44b6be7a, 0x0132b342e4738},
            {0xc3faf15234e15, 0xf978707d40acc, 0x81d1f04ce7d1b, 0x2c85b5cec0c16, 0x00b9b23653947},
        },
        {
            {0xa169796b1e4a8, 0x47dddabe19ddb, 0x71768ed4d2dfb, 0xc0f3f119d8c60, 0x016fedb3ba4cd},
            {0x3696bdaebcab2, 0xa6ce85f1d2633, 0x9166c842d865e, 0x9e1d98b368e71, 0x01bc13a941245},
            {0x8cd51d463cd44, 0x387c2ef819037, 0x141bade8dfb5f, 0x18da3ee1ea24d, 0x01316aebe0e88},
            {0x09eef8613f22e, 0x8ac19746d7c99, 0x05f1b9096afbc, 0x2517879502713, 0x0286b1c6d182d},
        },
        {
            {0x0c65cc893ca0e, 0xbeb574bb90dda, 0xaacc5096192d3, 0xed4a649add8da, 0x001a670a3e163},
            {0xce80c996ecdbf, 0x302e85e70fcb7, 0x0d21b95d6228f, 0xc6f76bc5e69db, 0x005b46564d5bc},
            {0x987ed123e5fbe, 0x06507ac263c22, 0x73ad8e98494a9, 0x354ca69da60d8, 0x018e33c7a9125},
            {0xcce6d33e11fb6, 0x06c984f53675f, 0xc96cef42e00b6, 0x0dc89ef662afa, 0x0222dc184e9a5},
        },
    },
    .round = {
        {0x7f321a2e39f3a, 0x35c82b5ed0d12, 0xb0b53c5eadbaf, 0xd6e04a2926da9, 0x02d13b8b7a117},
        {0x609954b2d3880, 0xbfed2f9375e9a, 0x382c8626f837a, 0x6eebc7c4f393d, 0x008d600dcd2e1},
        {0xa7687faa8c292, 0xd3c4dc7198ae8, 0xdfe4929be01da, 0xff69ed2778361, 0x02c10f02a47f8},
        {0xd0e021aa54b66, 0x548b25a4eba17, 0x8246b1e8fa596, 0x9cf69932011bb, 0x01a99df1e87ef},
        {0x3765c27890da0, 0x1a163e45c4cf0, 0xfad70771750de, 0x83930a0173cbf, 0x01932f86f072e},
        {0xd545188188a0e, 0x724f95a92e366, 0x9f84abb1a5844, 0x726952739e03b, 0x024ceb8c79b74},
    },
    .round_constants = {
        {0x22f1393df3c09, 0x732b44b26c5e9, 0xdf930aea4d7ca, 0x3f83af1a246a6, 0x0246c32f9bc33},
        {0x455bcb72fc60d, 0x0629b266d39e5, 0x657fb04e6d777, 0x81c1b34330016, 0x00d61a9320b49},
        {0xfb64bc7cd04b3, 0xc952c43f66c99, 0xa4d195d999851, 0x8350153f3ea01, 0x015ffa16ab5f0},
        {0x64e5e5de14248, 0xc57871f1b9834, 0xa1ac94d8b52c7, 0xda1831da0c6c3, 0x02c378490f38b},
        {0x5d1fb249508a7, 0xe1bf9aed26294, 0x21a708c0615d4, 0x7acc5283b1641, 0x01b865708aeef},
        {0xe81fba2ef764e, 0x81fc389adf68c, 0x7df6514c0eabb, 0xc8e7953462e3a, 0x00f1fd0781b1e},
        {0xcfe5025a0fcba, 0xf60195d1e875d, 0x22b7269a9715f, 0xb580a4bf553fd, 0x02d2b7c386390},
        {0xac461eb811e9a, 0x70aa37e23da87, 0xda3fe0c82acf9, 0xe32f8eae16ee7, 0x008ac9759af47},
        {0x4706b18faa816, 0x84136ae05670f, 0xdb4d941e526fc, 0xd809722674048, 0x021d2c3bdd50e},
        {0xe39a39ebc7e1c, 0x2cb60b49afb30, 0x147577fb904ac, 0xb2cdb36521356, 0x02216630f4d57},
        {0xc985a1d77d761, 0x547bda136a487, 0x7929bc4684e54, 0xe58aa153bc72c, 0x01d0500cef964},
        {0x81346e7e23d67, 0xe130e59fadca3, 0xfe17dd9912474, 0xe12626a16fd4a, 0x01b3e22ef982c},
        {0xbe947ed569154, 0xa3e8b79f28b3f, 0xeb4478c4923f2, 0xd319c3f151389, 0x02937ab738c9a},
        {0x182ddd283d92d, 0xebc36450cb86f, 0x035986148cc1c, 0x8d256be6d290f, 0x0259ff2695ed3},
        {0xd248e58696b71, 0x7a080bf266185, 0xeadb9038b0bc8, 0xab9981e718cd1, 0x027b48b256317},
        {0xf5f8e28b5444d, 0xdf262b8fde822, 0xf6a9021d71647, 0xb2d5007e05e12, 0x026d292dc9859},
        {0xb2d32f4c64abe, 0x7c901f5b95713, 0x09458d8194f38, 0xb34b5acb7cffb, 0x0247c5fc50578},
        {0x7b95903fc5643, 0xd3385238965c0, 0x4fb7c2d0ad1d5, 0x177fc85cbc5be, 0x011bdaebbf0f9},
        {0x85e4995a1b686, 0x9d800fe41eb2f, 0x84eadaeabcb3f, 0xcdb8c4b93bb9a, 0x02af9c2416888},
        {0x541b94ea87edc, 0xa6e9775569c0f, 0xd93d75b8e916d, 0x51b6329b389c0, 0x02aab1bac2eed},
        {0x248abc486bacc, 0x0314652b1e139, 0x57d5a53a7a66c, 0x33e207317c8f2, 0x014aafbf79530},
        {0xdabbdab883f82, 0x25706bb43312f, 0x8ca831bcbf261, 0xfa030162cba96, 0x017df70ad02b9},
        {0x3465721783eaf, 0x0c4feacb708c0, 0xc7ecd9b52d175, 0x2e3081c0580bb, 0x0017a71aa2eae},
        {0xc6d92fcdb7220, 0x9ff0dbfbae2c8, 0x8e7c31855d37b, 0x5bd1f2125213c, 0x01899e4bc93f7},
        {0xf840e2de51d1e, 0x086a0fab38f23, 0x65b99f656514c, 0x8c8dc70792732, 0x02e255040de61},
        {0xba7e683cefab1, 0x49a10d371a1bf, 0x97e00cb5bf247, 0x554453f1d9375, 0x02d90c549b152},
        {0xd24143b39892e, 0x18b422931d45d, 0xd95f4463fe6fe, 0xa7f2d0d36dac9, 0x02674b1b2b7e9},
        {0x6b5c4bb6dc138, 0xb284ea990118b, 0xe14e22d7be078, 0x66ab12ad2a911, 0x01a41fe2d4c88},
        {0x9cebc5c3ca9e9, 0xe19918067b9c7, 0x5d27d8892729f, 0x10057f96d7571, 0x02c64644dbc13},
        {0xc4491362a81c8, 0xe66551f9330bd, 0xdf78d9c04ac8a, 0x99b8933cc675a, 0x019f0d4d5cf72},
        {0x603008a457929, 0x24447fdb57b48, 0x36e524cc3852a, 0xbec24707fd580, 0x0200c802296e0},
        {0x0f2acfe6b26f2, 0x3ec0086be231f, 0xbfd87c9728953, 0x7d3161eb2bdcc, 0x0146174857d82},
        {0xe13e808bb03d3, 0xe7cd2886e2b12, 0xa60b12c23f12d, 0x47b75f54d9c66, 0x024fdc9e6a289},
        {0xdf4d4679c70a4, 0x79ed85f8e7d2b, 0xf01a467894e4f, 0xcccb91e48b1c1, 0x0214a6335327c},
        {0xfccf6ed5aaf36, 0x8eb734ce8cd3c, 0xfd82bf4bdbdc9, 0x43383f87d46e2, 0x01fcca7c1257d},
        {0x60e9f33c5efdf, 0x1464d3cbcb137, 0xc7190fa03938d, 0x4ae62e703115b, 0x014067a73498a},
        {0x5876d1f578d72, 0x7f689f8218133, 0xaaf70b285eb7e, 0x90b1152a2f3cf, 0x00ae3ffbd26cf},
        {0x1f5e5f9d8cffb, 0x35a32499089d6, 0xbcfc33163de25, 0xd0e33a55d6de4, 0x0228d78212a1c},
        {0xe41b654e8a9e9, 0x9b32cb7212020, 0xf332e39149baa, 0xe1a31fce45140, 0x009a74e121999},
        {0x97758e1c50c34, 0x718c9a97f8540, 0x355115972d844, 0x8af93ef5c2567, 0x020d87b54148c},
        {0x5e71d55761dbc, 0x6145eac51047f, 0x38dd96e22cf52, 0x283083fdd6035, 0x0128c1e2cf1fe},
        {0x640bc2539cabd, 0x96693d2d3b133, 0x5388f52617b5a, 0x6476b60097155, 0x010c2733d5fba},
        {0xb5dad805f60ac, 0x0541878ff5b21, 0x75c1c761c7885, 0x50552a0cfbf60, 0x012ecf03f14ae},
        {0x6ee935712220a, 0x1251bade86963, 0xb168933ab52e7, 0x563a82de8bf30, 0x0146f5280b185},
        {0x7592d5b01ebe2, 0x1cfaa0243aa16, 0xad6e01a3c6658, 0xccad0b875b48d, 0x01a9c75e7d400},
        {0x615ad4e724300, 0x3f673a0f36a47, 0xa1bf1001cabf5, 0xf8b94513206a1, 0x020a5ae5574e4},
        {0xb35c87ef878d1, 0xbf379f8ff7edf, 0xc72858b61bed5, 0x18d85410f663b, 0x02f622150efa0},
        {0x4e01e59839656, 0x3182f32bb30f8, 0xb03f59860f7ef, 0x75120a853d0f8, 0x01ec7e9cd10a4},
        {0xfbe6deb6cc2e0, 0x8458c9d1048bd, 0x11cce6e471868, 0x42e4a34ffc608, 0x02134c368cc9d},
        {0xb2fdd89864c09, 0xc9bbcde4372d6, 0x56b1cb29276e5, 0x4e9f8521cf851, 0x00d70c3146227},
        {0x731b81ab2b66a, 0xcc4e21f03d14c, 0x30ec204a2c2a9, 0x5516ffa7c510f, 0x01e9c89563956},
        {0xaef3f348c8082, 0x2991dce3e758c, 0x74e270ec0c45b, 0x806e6580d4b60, 0x02f320dd932ac},
        {0xdb64844c411e6, 0xf213c5378be96, 0x00936526fb667, 0x1c59822838bb0, 0x01a9a15de3180},
        {0xec792d0aca8aa, 0x1a3a6c3add408, 0x4fcc66a3f9925, 0x974bf9a9811e6, 0x012441b552654},
        {0xdf35461718088, 0xf9c3306d5ff82, 0x7f8ff304bdf6e, 0xf1c06ac06f106, 0x02ed5274ee315},
        {0x7c344a29c915d, 0xb392f970a3b00, 0xd12660d21c665, 0x1ff1a4dd29b7e, 0x0067c01f31da0},
    },
    .leave_x = {0xb6456b88d8cd0, 0xfd1a90f544e5c, 0xdb68bdf23ca98, 0xa10ae75c145bc, 0x00af9b2ce219d},
    .leave_v = {
        {
            {0x05b79ae01c042, 0xa0f862b42ef83, 0x024e7f9b1e8da, 0xd83a11ba44643, 0x002acf0f84cdc},
            {0x411aadd03f650, 0x13863c1528e2d, 0xe45d8de25703e, 0x7a5124651b5f3, 0x01a273ffed976},
            {0x7b5ddc81c6b20, 0xd77988a632feb, 0xa6af2f232ccbf, 0x4b8415700967d, 0x02f2742b7e8c2},
            {0xe4500f6f271c3, 0x0bd8f231b5d99, 0x4d3d525990874, 0x5ecd5d01c8e9d, 0x019ae217ca7ad},
            {0xe09b5ac14a5d4, 0x05ba10969ff74, 0x42a7aeb6de148, 0xca8ba076c9e68, 0x006019c2d70c4},
            {0x8eb24caa880ed, 0x8497f0926b625, 0xea4ed539bd36b, 0x430a43696b586, 0x0289218c6a0fe},
        },
        {
            {0xf72195335c129, 0x1d23595659012, 0xffc14d986633b, 0xc13d724d2cff8, 0x0067c0dd0d5c6},
            {0xa5d21dbb6d732, 0x0f63422d79dfc, 0x663af25217390, 0x819fbcd8f3d97, 0x0130c2ab154a1},
            {0x9cc5f3dc4ba0f, 0x7128047604b53, 0xa3487672bd642, 0xb322452437b79, 0x01139e5dfabc7},
            {0xe4500f6f271c3, 0x0bd8f231b5d99, 0x4d3d525990874, 0x5ecd5d01c8e9d, 0x019ae217ca7ad},
            {0x90facb41a9e0c, 0x73cf0f504bc15, 0x93a22c21f92b6, 0x8281f962e781e, 0x0288dfea97cdd},
            {0xc9bdd6845f1d2, 0x8120e13b47350, 0xf18d501cbbeb3, 0xf9cd773dfa942, 0x00ae1648a95f1},
        },
        {
            {0x8f2225f7a4a30, 0x522e1e73c2a5c, 0x2155b792af679, 0x87b13622f3e91, 0x0075d312f3c4b},
            {0x369025d524bcd, 0x42d31acee159e, 0xe2f77e34e3c8c, 0x60ddf6dfa889e, 0x026b46fef0830},
            {0x1adf983c7c025, 0x0a73b02005cda, 0xf1dc13fef5aba, 0x806b1557a36e0, 0x00a461944b3c7},
            {0xe4500f6f271c3, 0x0bd8f231b5d99, 0x4d3d525990874, 0x5ecd5d01c8e9d, 0x019ae217ca7ad},
            {0x20f689ae33da1, 0x2e7d699b1a192, 0x3acb44bdf75f4, 0x76c727ed3033b, 0x0148e159002cb},
            {0x3bfe794355aab, 0xebc427c6e5def, 0xafd1a71c6a794, 0x9655a2f10ee15, 0x02bdc8e7651a7},
        },
    },
    .leave_constant = {
        {0xb60f5900dc161, 0xab7bebebda660, 0x40f12c3b091cb, 0x8426f2e6af423, 0x013d2b8f3c328},
        {0xbdb100ca9099d, 0x4e95263e0abd8, 0x77703ec2d1ee4, 0x79d80aa2823c3, 0x01eaa9c7d1976},
        {0x8ee8aae46fd82, 0xd3143a1ac5ba4, 0xb33d6012a790b, 0x4d39d5ae87ede, 0x02c2e470fc782},
    },
};
#endif

#endif

#ifdef POSEIDON2_TABLES_DOUBLE
/* ---- AVX2 and FMA kernel: limbs as above, each of them in all lanes ---- */

typedef struct {
    double negative_inverse[4];
    double modulus[5][4];
    double fold[4][5][4];
    double round[6][5][4];
} double_tables;

SHARED const double_tables DOUBLE_TABLES __attribute__((aligned(32)));
#ifdef POSEIDON2_TABLES_HERE
const double_tables DOUBLE_TABLES __attribute__((aligned(32))) = {
    .negative_inverse = {0x1f593efffffff, 0x1f593efffffff, 0x1f593efffffff, 0x1f593efffffff},
    .modulus = {
            {0x1f593f0000001, 0x1f593f0000001, 0x1f593f0000001, 0x1f593f0000001},
            {0x4879b9709143e, 0x4879b9709143e, 0x4879b9709143e, 0x4879b9709143e},
            {0x181585d2833e8, 0x181585d2833e8, 0x181585d2833e8, 0x181585d2833e8},
            {0xa029b85045b68, 0xa029b85045b68, 0xa029b85045b68, 0xa029b85045b68},
            {0x030644e72e131, 0x030644e72e131, 0x030644e72e131, 0x030644e72e131},
        },
    .fold = {
        {
            {0x22e2400e2f27d, 0x22e2400e2f27d, 0x22e2400e2f27d, 0x22e2400e2f27d},
            {0x323b46ea19686, 0x323b46ea19686, 0x323b46ea19686, 0x323b46ea19686},
            {0xe6c43f0df672d, 0xe6c43f0df672d, 0xe6c43f0df672d, 0xe6c43f0df672d},
            {0x7824014c39e8b, 0x7824014c39e8b, 0x7824014c39e8b, 0x7824014c39e8b},
            {0x00c6b48afe1b8, 0x00c6b48afe1b8, 0x00c6b48afe1b8, 0x00c6b48afe1b8},
        },
        {
            {0x0e8c656567d77, 0x0e8c656567d77, 0x0e8c656567d77, 0x0e8c656567d77},
            {0x430d05713ae61, 0x430d05713ae61, 0x430d05713ae61, 0x430d05713ae61},
            {0xea3ba6b167128, 0xea3ba6b167128, 0xea3ba6b167128, 0xea3ba6b167128},
            {0xa7dae55c5a296, 0xa7dae55c5a296, 0xa7dae55c5a296, 0xa7dae55c5a296},
            {0x01b4afd513572, 0x01b4afd513572, 0x01b4afd513572, 0x01b4afd513572},
        },
        {
            {0x74eccce9a797a, 0x74eccce9a797a, 0x74eccce9a797a, 0x74eccce9a797a},
            {0x16ddcc30bd8a4, 0x16ddcc30bd8a4, 0x16ddcc30bd8a4, 0x16ddcc30bd8a4},
            {0x49ecd3539499e, 0x49ecd3539499e, 0x49ecd3539499e, 0x49ecd3539499e},
            {0xb23a6fcc592b8, 0xb23a6fcc592b8, 0xb23a6fcc592b8, 0xb23a6fcc592b8},
            {0x00e3bd49f6ee5, 0x00e3bd49f6ee5, 0x00e3bd49f6ee5, 0x00e3bd49f6ee5},
        },
        {
            {0x82e644ee4c3d2, 0x82e644ee4c3d2, 0x82e644ee4c3d2, 0x82e644ee4c3d2},
            {0xf93893c98b1de, 0xf93893c98b1de, 0xf93893c98b1de, 0xf93893c98b1de},
            {0xd46fe04d0a4c7, 0xd46fe04d0a4c7, 0xd46fe04d0a4c7, 0xd46fe04d0a4c7},
            {0x8f0aad55e2a1f, 0x8f0aad55e2a1f, 0x8f0aad55e2a1f, 0x8f0aad55e2a1f},
            {0x005ed0447de83, 0x005ed0447de83, 0x005ed0447de83, 0x005ed0447de83},
        },
    },
    .round = {
        {
            {0x7f321a2e39f3a, 0x7f321a2e39f3a, 0x7f321a2e39f3a, 0x7f321a2e39f3a},
            {0x35c82b5ed0d12, 0x35c82b5ed0d12, 0x35c82b5ed0d12, 0x35c82b5ed0d12},
            {0xb0b53c5eadbaf, 0xb0b53c5eadbaf, 0xb0b53c5eadbaf, 0xb0b53c5eadbaf},
            {0xd6e04a2926da9, 0xd6e04a2926da9, 0xd6e04a2926da9, 0xd6e04a2926da9},
            {0x02d13b8b7a117, 0x02d13b8b7a117, 0x02d13b8b7a117, 0x02d13b8b7a117},
        },
        {
            {0x609954b2d3880, 0x609954b2d3880, 0x609954b2d3880, 0x609954b2d3880},
            {0xbfed2f9375e9a, 0xbfed2f9375e9a, 0xbfed2f9375e9a, 0xbfed2f9375e9a},
            {0x382c8626f837a, 0x382c8626f837a, 0x382c8626f837a, 0x382c8626f837a},
            {0x6eebc7c4f393d, 0x6eebc7c4f393d, 0x6eebc7c4f393d, 0x6eebc7c4f393d},
            {0x008d600dcd2e1, 0x008d600dcd2e1, 0x008d600dcd2e1, 0x008d600dcd2e1},
        },
        {
            {0xa7687faa8c292, 0xa7687faa8c292, 0xa7687faa8c292, 0xa7687faa8c292},
            {0xd3c4dc7198ae8, 0xd3c4dc7198ae8, 0xd3c4dc7198ae8, 0xd3c4dc7198ae8},
            {0xdfe4929be01da, 0xdfe4929be01da, 0xdfe4929be01da, 0xdfe4929be01da},
            {0xff69ed2778361, 0xff69ed2778361, 0xff69ed2778361, 0xff69ed2778361},
            {0x02c10f02a47f8, 0x02c10f02a47f8, 0x02c10f02a47f8, 0x02c10f02a47f8},
        },
        {
            {0xd0e021aa54b66, 0xd0e021aa54b66, 0xd0e021aa54b66, 0xd0e021aa54b66},
            {0x548b25a4eba17, 0x548b25a4eba17, 0x548b25a4eba17, 0x548b25a4eba17},
            {0x8246b1e8fa596, 0x8246b1e8fa596, 0x8246b1e8fa596, 0x8246b1e8fa596},
            {0x9cf69932011bb, 0x9cf69932011bb, 0x9cf69932011bb, 0x9cf69932011bb},
            {0x01a99df1e87ef, 0x01a99df1e87ef, 0x01a99df1e87ef, 0x01a99df1e87ef},
        },
        {
            {0x3765c27890da0, 0x3765c27890da0, 0x3765c27890da0, 0x3765c27890da0},
            {0x1a163e45c4cf0, 0x1a163e45c4cf0, 0x1a163e45c4cf0, 0x1a163e45c4cf0},
            {0xfad70771750de, 0xfad70771750de, 0xfad70771750de, 0xfad70771750de},
            {0x83930a0173cbf, 0x83930a0173cbf, 0x83930a0173cbf, 0x83930a0173cbf},
            {0x01932f86f072e, 0x01932f86f072e, 0x01932f86f072e, 0x01932f86f072e},
        },
        {
            {0xd545188188a0e, 0xd545188188a0e, 0xd545188188a0e, 0xd545188188a0e},
            {0x724f95a92e366, 0x724f95a92e366, 0x724f95a92e366, 0x724f95a92e366},
            {0x9f84abb1a5844, 0x9f84abb1a5844, 0x9f84abb1a5844, 0x9f84abb1a5844},
            {0x726952739e03b, 0x726952739e03b, 0x726952739e03b, 0x726952739e03b},
            {0x024ceb8c79b74, 0x024ceb8c79b74, 0x024ceb8c79b74, 0x024ceb8c79b74},
        },
    },
};
#endif

#endif

#ifdef POSEIDON2_TABLES_SINGLE
/* ---- one or two states, AVX-512 IFMA and ADX ---- */

/* Limb i of lane j of the state at [i][j], and of another state at [i][4 + j]. */
static const uint64_t P1_FULL[8][5][8] __attribute__((aligned(64))) = {
        {
            {0x3f8237cba5255, 0x47a55be88167a, 0x63e9251800c19, 0x88a801f35e55c, 0x3f8237cba5255, 0x47a55be88167a, 0x63e9251800c19, 0x88a801f35e55c},
            {0xd8edc38d86237, 0xa28937ea9642c, 0x09e4f6f7b553b, 0x341a484973c4e, 0xd8edc38d86237, 0xa28937ea9642c, 0x09e4f6f7b553b, 0x341a484973c4e},
            {0xce2f5d6d12216, 0x49e547dbcb4b5, 0x54731f0600e7c, 0x679bf9dac6ccb, 0xce2f5d6d12216, 0x49e547dbcb4b5, 0x54731f0600e7c, 0x679bf9dac6ccb},
            {0x202e1f1ef93ab, 0x8562624e0802b, 0xc2670d17190b6, 0x371b5d1187539, 0x202e1f1ef93ab, 0x8562624e0802b, 0xc2670d17190b6, 0x371b5d1187539},
            {0x017415aa2aaa5, 0x009c48a30014e, 0x004f027b2a02d, 0x008a00242fb28, 0x017415aa2aaa5, 0x009c48a30014e, 0x004f027b2a02d, 0x008a00242fb28},
        },
        {
            {0x0f4c9dc24b7b1, 0x094ba75e43e7f, 0xe0a09ca1bde92, 0xb576cac195b14, 0x0f4c9dc24b7b1, 0x094ba75e43e7f, 0xe0a09ca1bde92, 0xb576cac195b14},
            {0x4e295d0ab66f7, 0x9b91f971743bd, 0x73ec8e8ce516e, 0x4e51812267c07, 0x4e295d0ab66f7, 0x9b91f971743bd, 0x73ec8e8ce516e, 0x4e51812267c07},
            {0x842220c1dc995, 0x9b8a85b5f5f8c, 0x6878b9f21a918, 0x89a0263b22170, 0x842220c1dc995, 0x9b8a85b5f5f8c, 0x6878b9f21a918, 0x89a0263b22170},
            {0xba84fbd9b6af0, 0x45b9356d508c5, 0x58f502aadbe1f, 0x3650864469342, 0xba84fbd9b6af0, 0x45b9356d508c5, 0x58f502aadbe1f, 0x3650864469342},
            {0x01a3013ae0bdc, 0x004b583714e67, 0x02f583d1369a0, 0x0017b81775238, 0x01a3013ae0bdc, 0x004b583714e67, 0x02f583d1369a0, 0x0017b81775238},
        },
        {
            {0xbd0239d56c255, 0x87410becf6821, 0x15ae3971df221, 0xf54e3fa474d1a, 0xbd0239d56c255, 0x87410becf6821, 0x15ae3971df221, 0xf54e3fa474d1a},
            {0x8e09f07d2a806, 0xd862d3691f49f, 0x9991b91480254, 0xddf605c2d57fc, 0x8e09f07d2a806, 0xd862d3691f49f, 0x9991b91480254, 0xddf605c2d57fc},
            {0x3a3bec82e6c7a, 0xd36662daa4d66, 0x2d056d04901a8, 0x0cf957ef894b0, 0x3a3bec82e6c7a, 0xd36662daa4d66, 0x2d056d04901a8, 0x0cf957ef894b0},
            {0x40e9c71017039, 0x90864877916ea, 0x8e1f544fd0db0, 0x8bb058a623eb0, 0x40e9c71017039, 0x90864877916ea, 0x8e1f544fd0db0, 0x8bb058a623eb0},
            {0x013ff096a0bf8, 0x0192f514df833, 0x0261007b5e5ae, 0x015a9656acc2f, 0x013ff096a0bf8, 0x0192f514df833, 0x0261007b5e5ae, 0x015a9656acc2f},
        },
        {
            {0xe3b45aed1035a, 0x4176556b6f1ef, 0x49e5374a05445, 0xfb880cd708ddb, 0xe3b45aed1035a, 0x4176556b6f1ef, 0x49e5374a05445, 0xfb880cd708ddb},
            {0xf5589300a0288, 0x3965d99149646, 0x69bf86505b105, 0xe81fb5c18868c, 0xf5589300a0288, 0x3965d99149646, 0x69bf86505b105, 0xe81fb5c18868c},
            {0x279bd16e2dc78, 0xda24dc0100af0, 0x39200b56f15ae, 0xb7ba11ddf83e0, 0x279bd16e2dc78, 0xda24dc0100af0, 0x39200b56f15ae, 0xb7ba11ddf83e0},
            {0xcfa0febba4d79, 0xa937855ad38fc, 0xf29dc7734018f, 0xb9d49018c522c, 0xcfa0febba4d79, 0xa937855ad38fc, 0xf29dc7734018f, 0xb9d49018c522c},
            {0x0062318bfd81e, 0x00e7840b1f81d, 0x02f0862d15268, 0x02c6a2f76e2ad, 0x0062318bfd81e, 0x00e7840b1f81d, 0x02f0862d15268, 0x02c6a2f76e2ad},
        },
        {
            {0x149f1a7623ba0, 0xe832f3294f40a, 0x6be37fa5c7830, 0x6f5873646beec, 0x149f1a7623ba0, 0xe832f3294f40a, 0x6be37fa5c7830, 0x6f5873646beec},
            {0x2905865d9d452, 0x9b01f306994eb, 0x92fa0605d9ee4, 0xf1e9dcf7d5026, 0x2905865d9d452, 0x9b01f306994eb, 0x92fa0605d9ee4, 0xf1e9dcf7d5026},
            {0x2dff7213d7347, 0x0a321e149dbc0, 0xb587104b80d6e, 0x2d110c957361c, 0x2dff7213d7347, 0x0a321e149dbc0, 0xb587104b80d6e, 0x2d110c957361c},
            {0xa0768860941a8, 0xdb0a75ecb6853, 0xd3be18d39eaa0, 0x3ca43702e43ef, 0xa0768860941a8, 0xdb0a75ecb6853, 0xd3be18d39eaa0, 0x3ca43702e43ef},
            {0x00f33f4676757, 0x01764960164b7, 0x019935cf03fe6, 0x02b1ad43b4449, 0x00f33f4676757, 0x01764960164b7, 0x019935cf03fe6, 0x02b1ad43b4449},
        },
        {
            {0xbf5ae77f08a94, 0x05529aab61a9b, 0x25ce26057fc36, 0xa12db59775e7c, 0xbf5ae77f08a94, 0x05529aab61a9b, 0x25ce26057fc36, 0xa12db59775e7c},
            {0x1c067dc722de0, 0x3db7faebca621, 0x9ddbe5310c611, 0x0a9e62b8a1d14, 0x1c067dc722de0, 0x3db7faebca621, 0x9ddbe5310c611, 0x0a9e62b8a1d14},
            {0xb0719faf1b91d, 0x1b750f992cb53, 0x39360d1e39ace, 0x12b59dd102f80, 0xb0719faf1b91d, 0x1b750f992cb53, 0x39360d1e39ace, 0x12b59dd102f80},
            {0x11bedbc6c5e91, 0x6a11342a951aa, 0x1d91c4fbfcf9f, 0x0c609e5f4784d, 0x11bedbc6c5e91, 0x6a11342a951aa, 0x1d91c4fbfcf9f, 0x0c609e5f4784d},
            {0x02b9c3cccf35b, 0x00ebeac1138dc, 0x01ddec05688e2, 0x018c5d4b826a5, 0x02b9c3cccf35b, 0x00ebeac1138dc, 0x01ddec05688e2, 0x018c5d4b826a5},
        },
        {
            {0xb0a3e56b8f2f4, 0x6930655ac5506, 0x0403d18821f3f, 0xa838a62e74a05, 0xb0a3e56b8f2f4, 0x6930655ac5506, 0x0403d18821f3f, 0xa838a62e74a05},
            {0x2a050d4cdf048, 0xdf5b22089d9c9, 0xb66da60284ce8, 0xe675707779be6, 0x2a050d4cdf048, 0xdf5b22089d9c9, 0xb66da60284ce8, 0xe675707779be6},
            {0xc4636bda734d8, 0xff75264bf43b0, 0x4f388e77f4274, 0x33bdf2f3429a3, 0xc4636bda734d8, 0xff75264bf43b0, 0x4f388e77f4274, 0x33bdf2f3429a3},
            {0x800ebadb857dd, 0xa4caf4e0b45bc, 0xa89d8b9cca39f, 0x980cbf09d0aa1, 0x800ebadb857dd, 0xa4caf4e0b45bc, 0xa89d8b9cca39f, 0x980cbf09d0aa1},
            {0x02f2bbda85302, 0x0061c009b1f76, 0x028c16d0dc29a, 0x022d163e0329a, 0x02f2bbda85302, 0x0061c009b1f76, 0x028c16d0dc29a, 0x022d163e0329a},
        },
        {
            {0x4bccf8304e366, 0x054ec8c186ec9, 0x18726b3b15988, 0x187915fc0bd76, 0x4bccf8304e366, 0x054ec8c186ec9, 0x18726b3b15988, 0x187915fc0bd76},
            {0x815f019fa7b9d, 0x9abc679bb7d91, 0xb7d50dc9a155c, 0x99fb1a2009835, 0x815f019fa7b9d, 0x9abc679bb7d91, 0xb7d50dc9a155c, 0x99fb1a2009835},
            {0x699e3fa46ee14, 0xac8ad48637c66, 0x0cbbc9b7dd76e, 0xde54336b5501c, 0x699e3fa46ee14, 0xac8ad48637c66, 0x0cbbc9b7dd76e, 0xde54336b5501c},
            {0xa022d74dde7ec, 0x084795016fe55, 0xa96229faa0985, 0xb192493e466de, 0xa022d74dde7ec, 0x084795016fe55, 0xa96229faa0985, 0xb192493e466de},
            {0x00c54ae93bbb3, 0x02b91b3b24eff, 0x0009a77579e64, 0x019a282a0f5c5, 0x00c54ae93bbb3, 0x02b91b3b24eff, 0x0009a77579e64, 0x019a282a0f5c5},
        },
    };
/* Of z and of X, for each limb: what it adds to the next three sums. */
static const uint64_t P1_FACTORS[2][5][2][8] __attribute__((aligned(64))) = {
        {
            {
                {0xfb932a45d4778, 0x8a0ea8fc94a3e, 0xea98069d418da, 0x521a22abbc5a8, 0x000696b13e210, 0xfef7ea94bd73d, 0x916bbf8c43172, 0x6d5d11fa28201},
                {0x9c44c757d403c, 0x02ca70685c97b, 0xc4542a3855608, 0xc519070d41265, 0x45995d1983a27, 0x288ac665b556a, 0x01250ca386a48, 0x0000000000000},
            },
            {
                {0x537cf24f40d60, 0xa246819b38f47, 0x3cf1082532889, 0x2e955d08533ed, 0x00fab7ae6ed28, 0x791cf8f142730, 0xef05bca8864d2, 0xf1770d686025e},
                {0xa3ee272ec039f, 0x0061e4b5c2d90, 0x64982a04b662f, 0xec503cee3b782, 0x761a4532bdd22, 0x19b2350a2f16a, 0x0102c7145b2e3, 0x0000000000000},
            },
            {
                {0x370dea1c4e601, 0x5dfd08b1c7cab, 0x290af1608be77, 0x383ff536d0310, 0x0039928526f56, 0xc56a51565e7c0, 0x6e99b91433371, 0xe6a1a8293a23e},
                {0xb5f02b04f0d36, 0x00a04176ea23b, 0x9270ed2361b43, 0x2764a77b14810, 0xa27a13c1c2352, 0x3660f410cec69, 0x0128420aafeee, 0x0000000000000},
            },
            {
                {0x552f894566027, 0x1172a14bd8530, 0xc66e547b60ac3, 0x2a6971e375996, 0x02b81860baa54, 0xa0dbc72fbdd8b, 0x74e17610f2469, 0x638f6861b8bfb},
                {0x3a030029e128e, 0x02b404ec4e0c2, 0x229cc17fa51c2, 0x7468d24f523f2, 0xa3f712c77a569, 0xe270547a4769b, 0x009af379a383f, 0x0000000000000},
            },
            {
                {0x7f321a2e39f3a, 0x35c82b5ed0d12, 0xb0b53c5eadbaf, 0xd6e04a2926da9, 0x02d13b8b7a117, 0x609954b2d3880, 0xbfed2f9375e9a, 0x382c8626f837a},
                {0x6eebc7c4f393d, 0x008d600dcd2e1, 0xa7687faa8c292, 0xd3c4dc7198ae8, 0xdfe4929be01da, 0xff69ed2778361, 0x02c10f02a47f8, 0x0000000000000},
            },
        },
        {
            {
                {0x915d6c5ce5566, 0x7e2afc8f6b852, 0x59947281ae35b, 0x341ff7bdaf306, 0x0057dcd67531e, 0x2b3e2773dd270, 0x96a19e1bca755, 0xfcf3567fbb097},
                {0x483a842952277, 0x00657ed7e54eb, 0x0fe5de727d6d6, 0x86e304f750044, 0xc37a8465298e2, 0xb2358c416b469, 0x019a34369fc1f, 0x0000000000000},
            },
            {
                {0xed8e9a36531fe, 0x0af0308e3677b, 0x9796e05fb9744, 0xe14b6d05c421e, 0x02bac6cace46e, 0x2e3f09c1f7f24, 0xc29cc0b2568ac, 0xdab85971f7b40},
                {0x940f2580b6c48, 0x00aa3f2693ec2, 0x7a7fe82347df2, 0x42073b03871dc, 0xa04e59ebb161f, 0xc1bba1c2e2b8e, 0x0298ca3f06543, 0x0000000000000},
            },
            {
                {0x95c7f26bc476e, 0xab1e40c3a5e64, 0xeb0338486aaa1, 0x2cfe6fa88f78f, 0x005753cf2d08b, 0x4b361f7cb4c4a, 0x2315f108c6c55, 0x8e6b447278c4e},
                {0x4d7cb4f2dd4df, 0x004adf18d0518, 0x864f9f866b3f4, 0xda63766675369, 0xc3fb2681c0e54, 0x4c3a9cf7fa5ab, 0x00ccd477929e8, 0x0000000000000},
            },
            {
                {0xc84ee3a0f6d43, 0xc125220bf4b59, 0x64b2dcaa9b370, 0xe789e5da775e1, 0x011a6a10f2593, 0xac2eb3e5e26bf, 0xd4e44f93e0061, 0xcac0d18b9c678},
                {0x509b62ac04b34, 0x00c19d2c93ab0, 0x8faa44884bf2f, 0x2a68fb398c98b, 0x84639f0cb0367, 0x3bb42e9642c08, 0x00ea82e36dc78, 0x0000000000000},
            },
            {
                {0xe3776f1906d17, 0xa7d1343422942, 0x38c9d5176ea4b, 0x74db179564ea3, 0x00d80d32a60be, 0x6e3a3fa95ca0d, 0x4f0540e621d4a, 0x26ea5e86f8655},
                {0x0263583fe0c47, 0x026341adadbe7, 0xc86017e8d910f, 0x10ec9f95bd5cd, 0x2842a20fbd096, 0x97514895aab26, 0x01bf780f5ebdf, 0x0000000000000},
            },
        },
    };
SHARED const uint64_t P1_CONSTANTS[56][8] __attribute__((aligned(64)));
#ifdef POSEIDON2_TABLES_HERE
const uint64_t P1_CONSTANTS[56][8] __attribute__((aligned(64))) = {
        {0xac0714665fc45, 0xd5304e43c277a, 0xde8d1b272cb19, 0xe247ca22b27d0, 0x022000f691fbf, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xe55aced5cb0cd, 0x0c629dc1c1a42, 0xdd5ba53092c1f, 0xa7a67eb2b0e18, 0x01568a7ace435, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x8aa144454a7f9, 0xca3415581599f, 0xc2d5d604cbb07, 0xf15a120060b20, 0x013dbb97b8bb1, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x61c319d55cf07, 0x67a015cc93805, 0xcdee97ec74131, 0xc8c80c6308b8f, 0x027b726ce18ac, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x5d6d35ddf19c7, 0xa3515981f4115, 0x5ff9dc6f04e04, 0x5b00be107821a, 0x001ae924f03d4, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x296b6c56cfb6c, 0x873abe79f44b8, 0xbb428a0bafb71, 0xbda92571cab52, 0x02df72f860b7d, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xbe50aad8daf0c, 0x67474ec32731d, 0x73a646616c01c, 0x26f3df8deadc7, 0x00397f251c4e2, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xea9832d4130d9, 0x9e5e43e919d9e, 0x8ebf2722c1e2a, 0xf81aa4621fb44, 0x028fe6e927bf2, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x10d2a75fd01f6, 0x2ec263cb7c7f1, 0x6b3055bfea26d, 0x956b2e96ef762, 0x01af0969f2780, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xd41978a846489, 0x0b72d4f526fc9, 0x6ac3696e1efd7, 0x6121605fbd1bd, 0x01c55d368ee34, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x15486e5626289, 0x43e52738a29aa, 0x49e8db96fdf62, 0x69d47c74b006a, 0x012a55560e528, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xf6c4bd586081f, 0xb6ff0689efd88, 0xe0ee51b6c0e41, 0x8868d091ef190, 0x028127113b995, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xa7b0d9572f068, 0xbda7b01e7339e, 0x992b25e61b873, 0xc713361983f0b, 0x0104fa70f131a, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xea809fe331df9, 0x9959f913d0245, 0xdcdbf01651505, 0xd3d0f94d1982e, 0x014c2d0cf35e2, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xdb95d9a186227, 0x4a5d206d7ed01, 0xc559c51b9be71, 0xed0d058ca9a87, 0x004c4c15e8ed5, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xb0ac804332a37, 0x46884a921af15, 0x741e57036519a, 0xf857451616dc5, 0x02b1ef52d3d67, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x38ce8e4f9efb2, 0xf248e90885dec, 0xa399ea5212aa1, 0xd95790a45489a, 0x0290302136fad, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x7eb469159fef4, 0x524e30af1912a, 0x1332f7677924e, 0x9e444347c1132, 0x020172ba7848d, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xee47e3b867acd, 0x396b11a3e4383, 0x8c6e8d6c543fc, 0xa74824f57e1fd, 0x00ff7aaf495d3, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xe9cc8ce7d7e25, 0x7174af355454b, 0x25eafeca7f324, 0x5afa256d1e8b3, 0x018ac70e78a4d, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x78520063ece1e, 0xca43ccdb12565, 0x369f877b21498, 0xd89a50cd90300, 0x023d9982043fd, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x45eb4c08a084d, 0xe85e7500d302e, 0x51c133177e0a7, 0x256018464c3d1, 0x02cdd0ae160ee, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x0e55ed974ab72, 0x8685016041c3d, 0xeda28a4b8072b, 0x1267538e63459, 0x00d11562cd13d, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x9666aa2c66a49, 0x8fcd4f40dc828, 0x68a914bfd86bf, 0x35adb8bc21e95, 0x00e3c6a1cb4cf, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x1a59f1c8a91eb, 0x192403b4879ea, 0x7641fa274c287, 0xbc574fd518bef, 0x00cc7a3b127eb, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xcf114dce524ec, 0x1bff546498f91, 0x279c24ac53cdb, 0x4df97004c560c, 0x0137613e0316b, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x5af40f73dd372, 0x622f8ed0bbd00, 0x26efbc2d17eac, 0x3bedf9f1ab09f, 0x0052a66663be2, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xa80387624f5b3, 0x25ba9144f67ea, 0x26a49de4b437a, 0x2c38224e55751, 0x00b8e7406ab4a, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x94611797af933, 0x6127152acf29b, 0x96a006bdb4b0c, 0xc2517de55f657, 0x01f72ac37f41d, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x69a4de16665f2, 0xea58ec18b9f02, 0x60994fcff48c2, 0x8f02e11ecf308, 0x02afebcd3c618, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x62b5c1609530e, 0x630c4959cffcf, 0xe0ab8abb548ec, 0x4efb0b15c5768, 0x0263e497c53a5, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x65c131118f5fd, 0xd8d0f3f14da91, 0x60ac943f21874, 0x5f9226bb68699, 0x02971c321281b, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xf7719e59c4158, 0x44dc3ea562cca, 0xd9bffd540efcc, 0xd51ada095635c, 0x002a7cc305709, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x9ea04aa87d26a, 0xcecabfc3d4fc0, 0x2b0ffb25cf3a0, 0xb13fbb1abdab5, 0x0119f9036f34c, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x964e71643367a, 0x20ff01e69cc50, 0x89ab680f5e7ac, 0x0ed6b6752837f, 0x019626b39c1e2, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xca0feb91185d7, 0xe20ccd003f577, 0x24e7eba625a7a, 0xce8475f7a50d5, 0x02e606326b369, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x8cfbf6129abfb, 0x8c79f3da7202a, 0xe609100ac0ba9, 0x576dd5cc2dddf, 0x00cb2952ea40c, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x1856783ec716a, 0x94a4ae3a7be72, 0xf0cb158512941, 0x28e59645eed56, 0x02eb7c3fed6df, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x756919d086e0d, 0x06b3210edcfdb, 0x43f4cfa6824da, 0xcc130b6663a11, 0x01584107ed8aa, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x2b09cbeab0092, 0x54a4ee56a3470, 0xbc9e65f7e3802, 0x15a9f61a9dd43, 0x0182a402eb616, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xa1d59de74d5fe, 0x251198faef7c6, 0x0145357297799, 0xbcbd5b677929e, 0x02bda71170ccd, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x54f5f7ff7c2f6, 0x47260ecb74b1c, 0xf6dc2acd14280, 0x957348eb9916a, 0x0114bf5627aae, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xd37fb7c6c1fa1, 0x1cd20c91e9e02, 0x55504969572f2, 0xbb37c20655d6b, 0x028f5dd0b5402, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x5e83a1529f777, 0x92727bc703946, 0xfca9bd16c922b, 0x9f816b5e7bf34, 0x02c232c8c211c, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x89ead2fb4663e, 0x65091baa412b8, 0x21f9b6818bb45, 0x9136cd5cd6ec3, 0x02f07bf208dba, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x0a606dd0a7f3c, 0x3b04a5ff2df6c, 0xab9e62d9fa0e4, 0x9573a39ff6b29, 0x026dafb626642, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x418778a96cae4, 0xbb84afefe489e, 0x97700bb373396, 0xd7b40d7a6c80f, 0x0128739aaf125, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xda8a693884e38, 0xf0d9e629b319f, 0x38065c7751d5b, 0x659a34ebd14f1, 0x027d23c00ee57, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x81e3c5fbc23d5, 0x83896296814c2, 0x4a6e9146a9462, 0x5f312a810d561, 0x008bf69c049ec, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xef509ba414042, 0x54629099474e9, 0x0379d73a8f2d7, 0xfdd5484b0b01c, 0x017607084c419, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xc3c0f1bd080c7, 0x52dbdfdb49615, 0x4182b2a025724, 0x3e75a489c278e, 0x0027451a56c49, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x83fdcbef0aaf6, 0xaf36a81200198, 0x45f8edf19299b, 0x7ca17ee98710f, 0x00ce0d06d4fba, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xeadb17050a503, 0xcd78795d01650, 0xfb4d9a9b3939d, 0xcdd6a05cb3ef5, 0x001e50cfc7003, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x8ad02418ab687, 0xba3b8d6485e41, 0x8317234170b64, 0xd170593e26b48, 0x00620b94ffc23, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x896a534259926, 0x8de813791db4f, 0x27153c033568a, 0x83ae7c3eb71f3, 0x02c5ff4df61f5, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xd3b5d9f84bb0b, 0x23a0d9d7c8b1c, 0xc94c48a810702, 0x9c989558d6749, 0x02be5051eba84, 0x0000000000000, 0x0000000000000, 0x0000000000000},
    };
#endif
static const uint64_t P1_MODULUS[8] __attribute__((aligned(64))) = {0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131, 0x0000000000000, 0x0000000000000, 0x0000000000000};
/* From limbs to words of 64 bits: limbs shifted down, and the rest, for the word below, up. */
static const uint64_t P1_SHIFTS[2][8] __attribute__((aligned(64))) = {
        {0x0000000000000, 0x000000000000c, 0x0000000000018, 0x0000000000024, 0x0000000000030, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x0000000000000, 0x0000000000034, 0x0000000000028, 0x000000000001c, 0x0000000000010, 0x0000000000000, 0x0000000000000, 0x0000000000000},
    };
#define P1_NEGATIVE_INVERSE 0x1f593efffffffULL  /* -1 / modulus mod 2^52 */

/* The largest multiple of the modulus in j * 2^252, modulo 2^256. */
SHARED const uint64_t P1_MULTIPLES[120][4];
#ifdef POSEIDON2_TABLES_HERE
const uint64_t P1_MULTIPLES[120][4] = {
        {0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000},
        {0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000},
        {0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000},
        {0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000},
        {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029},
        {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029},
        {0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029},
        {0x87c3eb27e0000002, 0x5067d090f372e122, 0x70a08b6d0302b0ba, 0x60c89ce5c2634053},
        {0x87c3eb27e0000002, 0x5067d090f372e122, 0x70a08b6d0302b0ba, 0x60c89ce5c2634053},
        {0x87c3eb27e0000002, 0x5067d090f372e122, 0x70a08b6d0302b0ba, 0x60c89ce5c2634053},
        {0xcba5e0bbd0000003, 0x789bb8d96d2c51b3, 0x28f0d12384840917, 0x912ceb58a394e07d},
        {0xcba5e0bbd0000003, 0x789bb8d96d2c51b3, 0x28f0d12384840917, 0x912ceb58a394e07d},
        {0xcba5e0bbd0000003, 0x789bb8d96d2c51b3, 0x28f0d12384840917, 0x912ceb58a394e07d},
        {0x0f87d64fc0000004, 0xa0cfa121e6e5c245, 0xe14116da06056174, 0xc19139cb84c680a6},
        {0x0f87d64fc0000004, 0xa0cfa121e6e5c245, 0xe14116da06056174, 0xc19139cb84c680a6},
        {0x0f87d64fc0000004, 0xa0cfa121e6e5c245, 0xe14116da06056174, 0xc19139cb84c680a6},
        {0x5369cbe3b0000005, 0xc903896a609f32d6, 0x99915c908786b9d1, 0xf1f5883e65f820d0},
        {0x5369cbe3b0000005, 0xc903896a609f32d6, 0x99915c908786b9d1, 0xf1f5883e65f820d0},
        {0x5369cbe3b0000005, 0xc903896a609f32d6, 0x99915c908786b9d1, 0xf1f5883e65f820d0},
        {0x974bc177a0000006, 0xf13771b2da58a367, 0x51e1a2470908122e, 0x2259d6b14729c0fa},
        {0x974bc177a0000006, 0xf13771b2da58a367, 0x51e1a2470908122e, 0x2259d6b14729c0fa},
        {0x974bc177a0000006, 0xf13771b2da58a367, 0x51e1a2470908122e, 0x2259d6b14729c0fa},
        {0xdb2db70b90000007, 0x196b59fb541213f8, 0x0a31e7fd8a896a8c, 0x52be2524285b6124},
        {0xdb2db70b90000007, 0x196b59fb541213f8, 0x0a31e7fd8a896a8c, 0x52be2524285b6124},
        {0xdb2db70b90000007, 0x196b59fb541213f8, 0x0a31e7fd8a896a8c, 0x52be2524285b6124},
        {0x1f0fac9f80000008, 0x419f4243cdcb848a, 0xc2822db40c0ac2e9, 0x83227397098d014d},
        {0x1f0fac9f80000008, 0x419f4243cdcb848a, 0xc2822db40c0ac2e9, 0x83227397098d014d},
        {0x1f0fac9f80000008, 0x419f4243cdcb848a, 0xc2822db40c0ac2e9, 0x83227397098d014d},
        {0x62f1a23370000009, 0x69d32a8c4784f51b, 0x7ad2736a8d8c1b46, 0xb386c209eabea177},
        {0x62f1a23370000009, 0x69d32a8c4784f51b, 0x7ad2736a8d8c1b46, 0xb386c209eabea177},
        {0x62f1a23370000009, 0x69d32a8c4784f51b, 0x7ad2736a8d8c1b46, 0xb386c209eabea177},
        {0xa6d397c76000000a, 0x920712d4c13e65ac, 0x3322b9210f0d73a3, 0xe3eb107ccbf041a1},
        {0xa6d397c76000000a, 0x920712d4c13e65ac, 0x3322b9210f0d73a3, 0xe3eb107ccbf041a1},
        {0xa6d397c76000000a, 0x920712d4c13e65ac, 0x3322b9210f0d73a3, 0xe3eb107ccbf041a1},
        {0xeab58d5b5000000b, 0xba3afb1d3af7d63d, 0xeb72fed7908ecc00, 0x144f5eefad21e1ca},
        {0xeab58d5b5000000b, 0xba3afb1d3af7d63d, 0xeb72fed7908ecc00, 0x144f5eefad21e1ca},
        {0xeab58d5b5000000b, 0xba3afb1d3af7d63d, 0xeb72fed7908ecc00, 0x144f5eefad21e1ca},
        {0x2e9782ef4000000c, 0xe26ee365b4b146cf, 0xa3c3448e1210245d, 0x44b3ad628e5381f4},
        {0x2e9782ef4000000c, 0xe26ee365b4b146cf, 0xa3c3448e1210245d, 0x44b3ad628e5381f4},
        {0x2e9782ef4000000c, 0xe26ee365b4b146cf, 0xa3c3448e1210245d, 0x44b3ad628e5381f4},
        {0x727978833000000d, 0x0aa2cbae2e6ab760, 0x5c138a4493917cbb, 0x7517fbd56f85221e},
        {0x727978833000000d, 0x0aa2cbae2e6ab760, 0x5c138a4493917cbb, 0x7517fbd56f85221e},
        {0x727978833000000d, 0x0aa2cbae2e6ab760, 0x5c138a4493917cbb, 0x7517fbd56f85221e},
        {0xb65b6e172000000e, 0x32d6b3f6a82427f1, 0x1463cffb1512d518, 0xa57c4a4850b6c248},
        {0xb65b6e172000000e, 0x32d6b3f6a82427f1, 0x1463cffb1512d518, 0xa57c4a4850b6c248},
        {0xb65b6e172000000e, 0x32d6b3f6a82427f1, 0x1463cffb1512d518, 0xa57c4a4850b6c248},
        {0xfa3d63ab1000000f, 0x5b0a9c3f21dd9882, 0xccb415b196942d75, 0xd5e098bb31e86271},
        {0xfa3d63ab1000000f, 0x5b0a9c3f21dd9882, 0xccb415b196942d75, 0xd5e098bb31e86271},
        {0xfa3d63ab1000000f, 0x5b0a9c3f21dd9882, 0xccb415b196942d75, 0xd5e098bb31e86271},
        {0x3e1f593f00000010, 0x833e84879b970914, 0x85045b68181585d2, 0x0644e72e131a029b},
        {0x3e1f593f00000010, 0x833e84879b970914, 0x85045b68181585d2, 0x0644e72e131a029b},
        {0x3e1f593f00000010, 0x833e84879b970914, 0x85045b68181585d2, 0x0644e72e131a029b},
        {0x82014ed2f0000011, 0xab726cd0155079a5, 0x3d54a11e9996de2f, 0x36a935a0f44ba2c5},
        {0x82014ed2f0000011, 0xab726cd0155079a5, 0x3d54a11e9996de2f, 0x36a935a0f44ba2c5},
        {0x82014ed2f0000011, 0xab726cd0155079a5, 0x3d54a11e9996de2f, 0x36a935a0f44ba2c5},
        {0xc5e34466e0000012, 0xd3a655188f09ea36, 0xf5a4e6d51b18368c, 0x670d8413d57d42ee},
        {0xc5e34466e0000012, 0xd3a655188f09ea36, 0xf5a4e6d51b18368c, 0x670d8413d57d42ee},
        {0xc5e34466e0000012, 0xd3a655188f09ea36, 0xf5a4e6d51b18368c, 0x670d8413d57d42ee},
        {0x09c539fad0000013, 0xfbda3d6108c35ac8, 0xadf52c8b9c998ee9, 0x9771d286b6aee318},
        {0x09c539fad0000013, 0xfbda3d6108c35ac8, 0xadf52c8b9c998ee9, 0x9771d286b6aee318},
        {0x09c539fad0000013, 0xfbda3d6108c35ac8, 0xadf52c8b9c998ee9, 0x9771d286b6aee318},
        {0x4da72f8ec0000014, 0x240e25a9827ccb59, 0x664572421e1ae747, 0xc7d620f997e08342},
        {0x4da72f8ec0000014, 0x240e25a9827ccb59, 0x664572421e1ae747, 0xc7d620f997e08342},
        {0x4da72f8ec0000014, 0x240e25a9827ccb59, 0x664572421e1ae747, 0xc7d620f997e08342},
        {0x91892522b0000015, 0x4c420df1fc363bea, 0x1e95b7f89f9c3fa4, 0xf83a6f6c7912236c},
        {0x91892522b0000015, 0x4c420df1fc363bea, 0x1e95b7f89f9c3fa4, 0xf83a6f6c7912236c},
        {0x91892522b0000015, 0x4c420df1fc363bea, 0x1e95b7f89f9c3fa4, 0xf83a6f6c7912236c},
        {0xd56b1ab6a0000016, 0x7475f63a75efac7b, 0xd6e5fdaf211d9801, 0x289ebddf5a43c395},
        {0xd56b1ab6a0000016, 0x7475f63a75efac7b, 0xd6e5fdaf211d9801, 0x289ebddf5a43c395},
        {0xd56b1ab6a0000016, 0x7475f63a75efac7b, 0xd6e5fdaf211d9801, 0x289ebddf5a43c395},
        {0x194d104a90000017, 0x9ca9de82efa91d0d, 0x8f364365a29ef05e, 0x59030c523b7563bf},
        {0x194d104a90000017, 0x9ca9de82efa91d0d, 0x8f364365a29ef05e, 0x59030c523b7563bf},
        {0x194d104a90000017, 0x9ca9de82efa91d0d, 0x8f364365a29ef05e, 0x59030c523b7563bf},
        {0x5d2f05de80000018, 0xc4ddc6cb69628d9e, 0x4786891c242048bb, 0x89675ac51ca703e9},
        {0x5d2f05de80000018, 0xc4ddc6cb69628d9e, 0x4786891c242048bb, 0x89675ac51ca703e9},
        {0x5d2f05de80000018, 0xc4ddc6cb69628d9e, 0x4786891c242048bb, 0x89675ac51ca703e9},
        {0xa110fb7270000019, 0xed11af13e31bfe2f, 0xffd6ced2a5a1a118, 0xb9cba937fdd8a412},
        {0xa110fb7270000019, 0xed11af13e31bfe2f, 0xffd6ced2a5a1a118, 0xb9cba937fdd8a412},
        {0xa110fb7270000019, 0xed11af13e31bfe2f, 0xffd6ced2a5a1a118, 0xb9cba937fdd8a412},
        {0xe4f2f1066000001a, 0x1545975c5cd56ec0, 0xb82714892722f976, 0xea2ff7aadf0a443c},
        {0xe4f2f1066000001a, 0x1545975c5cd56ec0, 0xb82714892722f976, 0xea2ff7aadf0a443c},
        {0xe4f2f1066000001a, 0x1545975c5cd56ec0, 0xb82714892722f976, 0xea2ff7aadf0a443c},
        {0x28d4e69a5000001b, 0x3d797fa4d68edf52, 0x70775a3fa8a451d3, 0x1a94461dc03be466},
        {0x28d4e69a5000001b, 0x3d797fa4d68edf52, 0x70775a3fa8a451d3, 0x1a94461dc03be466},
        {0x28d4e69a5000001b, 0x3d797fa4d68edf52, 0x70775a3fa8a451d3, 0x1a94461dc03be466},
        {0x6cb6dc2e4000001c, 0x65ad67ed50484fe3, 0x28c79ff62a25aa30, 0x4af89490a16d8490},
        {0x6cb6dc2e4000001c, 0x65ad67ed50484fe3, 0x28c79ff62a25aa30, 0x4af89490a16d8490},
        {0x6cb6dc2e4000001c, 0x65ad67ed50484fe3, 0x28c79ff62a25aa30, 0x4af89490a16d8490},
        {0xb098d1c23000001d, 0x8de15035ca01c074, 0xe117e5acaba7028d, 0x7b5ce303829f24b9},
        {0xb098d1c23000001d, 0x8de15035ca01c074, 0xe117e5acaba7028d, 0x7b5ce303829f24b9},
        {0xb098d1c23000001d, 0x8de15035ca01c074, 0xe117e5acaba7028d, 0x7b5ce303829f24b9},
        {0xf47ac7562000001e, 0xb615387e43bb3105, 0x99682b632d285aea, 0xabc1317663d0c4e3},
        {0xf47ac7562000001e, 0xb615387e43bb3105, 0x99682b632d285aea, 0xabc1317663d0c4e3},
        {0xf47ac7562000001e, 0xb615387e43bb3105, 0x99682b632d285aea, 0xabc1317663d0c4e3},
        {0x385cbcea1000001f, 0xde4920c6bd74a197, 0x51b87119aea9b347, 0xdc257fe94502650d},
        {0x385cbcea1000001f, 0xde4920c6bd74a197, 0x51b87119aea9b347, 0xdc257fe94502650d},
        {0x385cbcea1000001f, 0xde4920c6bd74a197, 0x51b87119aea9b347, 0xdc257fe94502650d},
        {0x7c3eb27e00000020, 0x067d090f372e1228, 0x0a08b6d0302b0ba5, 0x0c89ce5c26340537},
        {0x7c3eb27e00000020, 0x067d090f372e1228, 0x0a08b6d0302b0ba5, 0x0c89ce5c26340537},
        {0x7c3eb27e00000020, 0x067d090f372e1228, 0x0a08b6d0302b0ba5, 0x0c89ce5c26340537},
        {0xc020a811f0000021, 0x2eb0f157b0e782b9, 0xc258fc86b1ac6402, 0x3cee1ccf0765a560},
        {0xc020a811f0000021, 0x2eb0f157b0e782b9, 0xc258fc86b1ac6402, 0x3cee1ccf0765a560},
        {0xc020a811f0000021, 0x2eb0f157b0e782b9, 0xc258fc86b1ac6402, 0x3cee1ccf0765a560},
        {0x04029da5e0000022, 0x56e4d9a02aa0f34b, 0x7aa9423d332dbc5f, 0x6d526b41e897458a},
        {0x04029da5e0000022, 0x56e4d9a02aa0f34b, 0x7aa9423d332dbc5f, 0x6d526b41e897458a},
        {0x04029da5e0000022, 0x56e4d9a02aa0f34b, 0x7aa9423d332dbc5f, 0x6d526b41e897458a},
        {0x47e49339d0000023, 0x7f18c1e8a45a63dc, 0x32f987f3b4af14bc, 0x9db6b9b4c9c8e5b4},
        {0x47e49339d0000023, 0x7f18c1e8a45a63dc, 0x32f987f3b4af14bc, 0x9db6b9b4c9c8e5b4},
        {0x47e49339d0000023, 0x7f18c1e8a45a63dc, 0x32f987f3b4af14bc, 0x9db6b9b4c9c8e5b4},
        {0x8bc688cdc0000024, 0xa74caa311e13d46d, 0xeb49cdaa36306d19, 0xce1b0827aafa85dd},
        {0x8bc688cdc0000024, 0xa74caa311e13d46d, 0xeb49cdaa36306d19, 0xce1b0827aafa85dd},
        {0x8bc688cdc0000024, 0xa74caa311e13d46d, 0xeb49cdaa36306d19, 0xce1b0827aafa85dd},
        {0xcfa87e61b0000025, 0xcf80927997cd44fe, 0xa39a1360b7b1c576, 0xfe7f569a8c2c2607},
        {0xcfa87e61b0000025, 0xcf80927997cd44fe, 0xa39a1360b7b1c576, 0xfe7f569a8c2c2607},
        {0xcfa87e61b0000025, 0xcf80927997cd44fe, 0xa39a1360b7b1c576, 0xfe7f569a8c2c2607},
        {0x138a73f5a0000026, 0xf7b47ac21186b590, 0x5bea591739331dd3, 0x2ee3a50d6d5dc631},
        {0x138a73f5a0000026, 0xf7b47ac21186b590, 0x5bea591739331dd3, 0x2ee3a50d6d5dc631},
        {0x138a73f5a0000026, 0xf7b47ac21186b590, 0x5bea591739331dd3, 0x2ee3a50d6d5dc631},
        {0x576c698990000027, 0x1fe8630a8b402621, 0x143a9ecdbab47631, 0x5f47f3804e8f665b},
        {0x576c698990000027, 0x1fe8630a8b402621, 0x143a9ecdbab47631, 0x5f47f3804e8f665b},
    };
#endif
static const uint64_t P1_FOLD[4] = {0x2d3e8053e396ee4d, 0xca478dbeab3c92cd, 0xb2d8f06f77f52a93, 0x24d6ba07f7aa8f04};  /* 2^-64 */
static const uint64_t P1_B0_HALF[4] = {0x64337ff843d52a5c, 0xa527596d873fd89d, 0x9a8ac8ad26fa3b24, 0x28264eb64b37cf09};

static const uint64_t P1_ENTER[4][5][2][8] __attribute__((aligned(64))) = {
        {
            {
                {0xd9c4d8ae7be33, 0xad6917b1cb155, 0xc5a49caa2fb14, 0x8c6f3d020eb52, 0x01083c8daf23b, 0x63f76e5c00ac8, 0xc13e360b08888, 0x98b5b2b9543c4},
                {0xf8ccbd46fe6fc, 0x00941d8177581, 0x96c429e80fdf2, 0x33c0af285b17d, 0xf8c8335121bf9, 0x920a92e83dbca, 0x006c3c52c1850, 0x0000000000000},
            },
            {
                {0xc7bae496c74fe, 0x097374985d8c7, 0x92c6c4184521f, 0xe5746048cb751, 0x0294799681678, 0xb330bf479bd6c, 0x6dccb35bc119c, 0x0edecb6049b35},
                {0xa5018b5cb178a, 0x02d44a058d2bb, 0x07dadffe8e40d, 0xf6ed42c9501d7, 0x802dce73d238e, 0x91deea5e3e9d3, 0x012e1a01f0500, 0x0000000000000},
            },
            {
                {0xd64a887432f48, 0xeda82fde9764b, 0xbc3369bbed861, 0xf994b33b54b5d, 0x0168e2d7d7839, 0xd8ad687a3a745, 0x035cb3c89bc58, 0x724417de5db28},
                {0x1b31f74bfc462, 0x01cea2d730a39, 0xbad68a5c0509b, 0xd68bcdbd55e4f, 0xc1b507ae6b4c0, 0xba0cb9ea234e5, 0x00633b7da6e14, 0x0000000000000},
            },
            {
                {0x3f4c54c987a27, 0x75ed97681ebf0, 0xbdc55917e4529, 0x6025eb06f57a7, 0x01c08cc26c0ed, 0x1ba0a1be99cfd, 0x2e8df9bc5a3d3, 0x89547776cca82},
                {0xf5b2a8f9b29a4, 0x007a9c77c4e48, 0x74b01d8ba761e, 0x004c93672f375, 0x8bee67543c898, 0x153cc33f866c4, 0x001b55fe01fcf, 0x0000000000000},
            },
            {
                {0xe460141bd3d16, 0xb1c495edcb077, 0xab7be7cd32d8d, 0x5776bed5c7bb4, 0x01986d011a2bf, 0x7c2fa7b8a5a7d, 0x7a9456b3083e8, 0x0503448ad17bb},
                {0x32e45ff7fc32f, 0x012cf3a994d69, 0x1899e02327399, 0x98d6e2616d9b0, 0x9a5ada488d9a0, 0x605324185ab38, 0x0205449902b32, 0x0000000000000},
            },
        },
        {
            {
                {0x0b3f37f26fb50, 0x0ecb43445e16a, 0xb99cdf5b22dff, 0xf2770581559ce, 0x0271b1346c1ee, 0x9418984e2682e, 0xa68370da58284, 0xe9324fcedf0ce},
                {0xbc2ab175944f1, 0x02feabe92996c, 0x89a13679eef56, 0xf289a7e200fcd, 0x5f0cebee95c5f, 0x4c01bf84d370b, 0x00e826ffc4fbd, 0x0000000000000},
            },
            {
                {0x346677d22eeb1, 0x1ca7c197f8ef5, 0x1446f65777a96, 0xa6fb4fb544c55, 0x027c4f33c1a15, 0x1418a6d0723ee, 0xd15626c257a9b, 0x913fdbe821f7b},
                {0x776deaa70969b, 0x00270783cce68, 0x59cd6e8c9f463, 0x8555449215337, 0xccb36b20c6b37, 0x6a196b52bd7f9, 0x01db0bf29e3cd, 0x0000000000000},
            },
            {
                {0x447e8ffee116f, 0x1ed217066397e, 0xd990d0d59d3fb, 0xab71f4c59129a, 0x02dd59bfd3b9e, 0x2f71a831ed84e, 0xd81afde662221, 0x110956eaf9e68},
                {0x665e3369d4caf, 0x016d5ce2b43fe, 0x62cd0bc4abe1d, 0x7d5284d3bcaf0, 0x1a5b4b8141305, 0xa17106079e024, 0x014d24a065a59, 0x0000000000000},
            },
            {
                {0xe444522922b20, 0x2935822b30cb9, 0x7fe2a18415467, 0xf4cd25b92f4c5, 0x026dc8dff7db5, 0xd4cf25011f16b, 0x5a2232a15f1b4, 0x12592b9acf073},
                {0xb788aebca6807, 0x022a93d8c0eb2, 0x4001327344046, 0x65f55088d5e49, 0x9fc4c9822ec9a, 0x8765d60bcb55a, 0x006049f530e2f, 0x0000000000000},
            },
            {
                {0xf995c12536466, 0xa2897f3d03e1b, 0x000eb0138a57f, 0xec6d02da340f5, 0x02191cab65818, 0xa769b309b7a47, 0x83b51032e78fe, 0x84e7620d8cfd1},
                {0x570933914eb39, 0x019518c064897, 0x696711645dd8f, 0xdb92ed2cd9c91, 0xe3e2471d278d6, 0x1b195b8c90df0, 0x00be9f8015391, 0x0000000000000},
            },
        },
        {
            {
                {0x0b3f37f26fb50, 0x0ecb43445e16a, 0xb99cdf5b22dff, 0xf2770581559ce, 0x0271b1346c1ee, 0xe49226d17e466, 0x0cdb855b2d8ca, 0x53324ac063a76},
                {0x6e402b425290e, 0x00506ab53422b, 0xf280fd491053a, 0x2428d4a02576e, 0x1fa87d2029b4a, 0xcb7be91574028, 0x010210959ab4d, 0x0000000000000},
            },
            {
                {0x346677d22eeb1, 0x1ca7c197f8ef5, 0x1446f65777a96, 0xa6fb4fb544c55, 0x027c4f33c1a15, 0xacccb89f8d65b, 0xb4bfde182ed2b, 0x78619afce65f1},
                {0x6f1b38706715e, 0x002099f89d6c0, 0x61c5cdf6b4639, 0x39bce1ba2843f, 0x98162ad2b9ad4, 0xbf86c51022d83, 0x02c1d1a718a56, 0x0000000000000},
            },
            {
                {0x447e8ffee116f, 0x1ed217066397e, 0xd990d0d59d3fb, 0xab71f4c59129a, 0x02dd59bfd3b9e, 0xb308adf6c799b, 0x80257dc9800a0, 0xfbce72e3728a3},
                {0x7600e3e03f553, 0x004e5f107ca35, 0x417095fa9d234, 0x0bbf9a3325c99, 0x5723c023d6ee6, 0x7d0d5f824f0c2, 0x00427f77c95f2, 0x0000000000000},
            },
            {
                {0xe444522922b20, 0x2935822b30cb9, 0x7fe2a18415467, 0xf4cd25b92f4c5, 0x026dc8dff7db5, 0xcfa77a0f589fc, 0x454fc032e7691, 0x32f16b1c98ae7},
                {0xa7f76c3cb8bb7, 0x0017ee12a2538, 0x2d95c3cddf2f1, 0xed86014d4b211, 0x526974f53925c, 0x88c87be615cbc, 0x02ae39a17ba01, 0x0000000000000},
            },
            {
                {0xf995c12536466, 0xa2897f3d03e1b, 0x000eb0138a57f, 0xec6d02da340f5, 0x02191cab65818, 0xfc25657db9d5d, 0xea8274e97ffb8, 0x12eed5bd3cf72},
                {0xa7527d98066b3, 0x0124d4b0036c3, 0xf770821e25bc0, 0x6bf4aca84a094, 0xad1d301d53c35, 0x1ef3de77bcbe7, 0x01b6680c23c28, 0x0000000000000},
            },
        },
        {
            {
                {0x0b3f37f26fb50, 0x0ecb43445e16a, 0xb99cdf5b22dff, 0xf2770581559ce, 0x0271b1346c1ee, 0x55bac9aa96e66, 0xd38b8821fecd0, 0x3ab05aba0ebcf},
                {0xc8ca88bc2073c, 0x02e92c122b1db, 0xa2eeb78fe02b5, 0x6d49eac64cab0, 0xf36dd63ccfdb0, 0xd9f54a65483a5, 0x005ad8f0f4b37, 0x0000000000000},
            },
            {
                {0x346677d22eeb1, 0x1ca7c197f8ef5, 0x1446f65777a96, 0xa6fb4fb544c55, 0x027c4f33c1a15, 0xd686c907dd98e, 0x717f6902dfe90, 0x74bca7c092172},
                {0x120931da38971, 0x01c77cc6eb71b, 0xedcfa3a821411, 0x9169b605245cf, 0xdb277f4937b8b, 0xc89d95245f432, 0x014969687123b, 0x0000000000000},
            },
            {
                {0x447e8ffee116f, 0x1ed217066397e, 0xd990d0d59d3fb, 0xab71f4c59129a, 0x02dd59bfd3b9e, 0x608c5fb7b9314, 0xd533610b814ce, 0xc1ecea3ab334e},
                {0xe8ba25c46a3bf, 0x019bc8853a9d3, 0x8d4e3c719bb90, 0x3e954b5f7eb98, 0x0dfa80d090fda, 0x44205eb46d0e2, 0x00a326fd0a4a8, 0x0000000000000},
            },
            {
                {0xe444522922b20, 0x2935822b30cb9, 0x7fe2a18415467, 0xf4cd25b92f4c5, 0x026dc8dff7db5, 0xcda49a9e4db92, 0xf873be95e2745, 0x450b3b5a5ed8c},
                {0x78190a8db680a, 0x016ab24a98bd9, 0x75f6ced226c57, 0x7700e26ec01a3, 0xacdf1e7361782, 0x66ca60c56cf0b, 0x0024f128562a7, 0x0000000000000},
            },
            {
                {0xf995c12536466, 0xa2897f3d03e1b, 0x000eb0138a57f, 0xec6d02da340f5, 0x02191cab65818, 0xed457669eab8a, 0x4549aea3b6c8d, 0x2192b63ef371c},
                {0xa35f59dc5b78f, 0x00a9424b0e2d8, 0x328fd67a6a18d, 0x3c8c5d88c12ad, 0x40e84725866e8, 0xeaba5cc964a45, 0x025c897818729, 0x0000000000000},
            },
        },
    };
static const uint64_t P1_ENTER_X[5][8] __attribute__((aligned(64))) = {
        {0x0b3f37f26fb50, 0x0ecb43445e16a, 0xb99cdf5b22dff, 0xf2770581559ce, 0x0271b1346c1ee, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x346677d22eeb1, 0x1ca7c197f8ef5, 0x1446f65777a96, 0xa6fb4fb544c55, 0x027c4f33c1a15, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x447e8ffee116f, 0x1ed217066397e, 0xd990d0d59d3fb, 0xab71f4c59129a, 0x02dd59bfd3b9e, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xe444522922b20, 0x2935822b30cb9, 0x7fe2a18415467, 0xf4cd25b92f4c5, 0x026dc8dff7db5, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xf995c12536466, 0xa2897f3d03e1b, 0x000eb0138a57f, 0xec6d02da340f5, 0x02191cab65818, 0x0000000000000, 0x0000000000000, 0x0000000000000},
    };
static const uint64_t P1_ENTER_CONSTANT[8] __attribute__((aligned(64))) = {0xb31cd4bf7def6, 0xb4d8f50b0e68c, 0xc71af5fee4ced, 0xf4fb75205214b, 0x01bdbf7de34ac, 0x0000000000000, 0x0000000000000, 0x0000000000000};
static const uint64_t P1_LEAVE[7][5][2][8] __attribute__((aligned(64))) = {
        {
            {
                {0x88926dc5fbcc4, 0x4d38e42057a4e, 0x94e6828ea29ed, 0xf137d237dcb41, 0x00dcc93185f42, 0x8b78d0d0e2c1c, 0xf5ee1480aef19, 0x506e028501d38},
                {0x5dc14ec799694, 0x019440f68d404, 0x9dd7e2c8f6741, 0x3f9f49ff90e74, 0x20001a61b68bc, 0xe12fd08ba0f2c, 0x029dbeb3a00b7, 0x0000000000000},
            },
            {
                {0x13ceaf7c4de37, 0x59c1bbc505bf9, 0x15b22888e62f9, 0x71c365f1bc057, 0x01545e649d178, 0x0318acb2e8b91, 0x1a0a33578aa3f, 0xf6a4a46147694},
                {0xc7410f2e73d46, 0x01a0f81cfc224, 0xe52afa689c534, 0xf411c9e99d55a, 0x09efd5864708d, 0xda966456b8640, 0x0293050a82637, 0x0000000000000},
            },
            {
                {0xf211c5c66b51a, 0xf1404739c0b42, 0x83ed4336acb4b, 0xd9c5318d6db9c, 0x0021ed23694e7, 0xe7bb57fa071e2, 0xfb41c96897126, 0x91a9d288b0dae},
                {0xd8fbdfcbbfa13, 0x00617dff53316, 0xe35c72b6ee44b, 0x2f377a09de98f, 0xecd3d41bcaa2d, 0xb6331d250c171, 0x024fdfff1ce57, 0x0000000000000},
            },
            {
                {0x72c1980a44f0d, 0x78a3cdf1edaca, 0x100dac773bf22, 0xd99aedc3abe88, 0x028f4ce4048e1, 0xa0061d2e9326a, 0x16040d92afc02, 0x7fd9676a9f032},
                {0x19a23464fe0c2, 0x00503eab28b82, 0xcb77e9b61fbde, 0x4f2c09d7938fb, 0x0c2ca6de1954d, 0x5ec25a916274f, 0x00b86e2af807a, 0x0000000000000},
            },
            {
                {0x5b79ae01c0420, 0x0f862b42ef830, 0x24e7f9b1e8daa, 0x83a11ba446430, 0x02acf0f84cdcd, 0x3366d535c128e, 0x414222846d8b3, 0xcbe9cde15cbe1},
                {0xd383b432448bf, 0x006f840279a08, 0xb36fe17a4a2fe, 0x91ee745b07d4c, 0xe5306d85effc4, 0x3abff18eb3241, 0x0150a760e0255, 0x0000000000000},
            },
        },
        {
            {
                {0xad4cba516e17e, 0x436ed09d84510, 0x1985620972c82, 0x7c0e6f92afa24, 0x025b7e7797217, 0x24e09bfe2b0c4, 0x5a77d7f775a99, 0x0e29f3fe1322d},
                {0x5fdb5694e9ebe, 0x02201ce3faa4b, 0xd2531b33a55cd, 0x0d73edaf35a14, 0x730d10ba5b757, 0xab5ae2f643800, 0x018f9e31d7c41, 0x0000000000000},
            },
            {
                {0xc88bb3609009e, 0xc67551fcaf861, 0x0b046f3f441ba, 0xad842310d9cae, 0x02bac687672bf, 0xe5844251823f9, 0xfba568ed21a61, 0x56b544335192c},
                {0x0a467cc721df5, 0x00c7fe63928fa, 0x1801e5a002f3b, 0x0884666886e55, 0x6442dc57ee932, 0x55ab3e57421f7, 0x02b7685cfc93b, 0x0000000000000},
            },
            {
                {0xfc126cb4e600a, 0x65e0271525251, 0x68c36c40e3f2b, 0xe1d964296c216, 0x02c28a1c96876, 0x65356c6ffdbe1, 0xfeda0ea1be7f3, 0x76b9aa4222972},
                {0x3b10603fd752a, 0x0106e66a5281c, 0xb6e4417b02d05, 0x6043a1f69c5a7, 0x261e6b5262164, 0x20cc611c40173, 0x0229fe0e01c21, 0x0000000000000},
            },
            {
                {0xa3257cee2e350, 0xca9b513c1faba, 0xa723117b8d62c, 0x966668a1e9bdd, 0x01f39bffbb7ac, 0x49bed4fb5f4ed, 0x2ee76059f8fff, 0xed9f1c1d541e7},
                {0x2076b7e60111d, 0x016beb61aae59, 0xff0493ca6d06d, 0xeb49752f27bc2, 0xf2036ddb88c4f, 0xaa676c420c65c, 0x016430c79af13, 0x0000000000000},
            },
            {
                {0x16e0e503f64f8, 0xf495f5ce040e3, 0x852caf915649e, 0xa3c483cf883fd, 0x01f518c568dda, 0xa10a61b6d731a, 0x4359ca3436655, 0xd32e02326018f},
                {0x59017bad9b505, 0x00e68d46402ee, 0xf0d369524bcc4, 0xc77cfba7466f9, 0x0e759d70159e0, 0x8beaca374410d, 0x02693518df4b2, 0x0000000000000},
            },
        },
        {
            {
                {0x6c8ed0a417a04, 0x304b64281a7a4, 0x78a8267d2be03, 0xcfad8e0757291, 0x02a982ec59e5b, 0x056b40e16cc3b, 0xa60b484323cd9, 0x3608c9fef373f},
                {0x9f68372754025, 0x023a899d53375, 0x73f508ffd391c, 0x32c07d9cd6216, 0xd6c750e938c2a, 0x740ae17a56e62, 0x00cbbefee799f, 0x0000000000000},
            },
            {
                {0x1c336bbdda511, 0x6c25b7661be58, 0x43b056fa5f36c, 0xbe35a2c0610a4, 0x019783604e66b, 0x99d882d649a52, 0x01225229738cb, 0xa1569f69eb7b1},
                {0x1cca8959f67f9, 0x00fd5d2c888c6, 0x888e2a5fdc507, 0xe2fe2bf167b4c, 0xad9522805662a, 0x29450f5a5a633, 0x00debfc7c8b04, 0x0000000000000},
            },
            {
                {0x13f4c2f86fc58, 0xf7cd7085d3b0f, 0x7200abdf9da27, 0x0a646cd28dca1, 0x004c1515eea72, 0x4ffc4a8313660, 0xb2eccb1c8b3a7, 0x0224b6c15ebfe},
                {0xb9c93d28ed40c, 0x01991b9074370, 0xa83dbb51a82ff, 0x848be401d507e, 0xabd3c5b5cb543, 0xa1bdf13ed3bd4, 0x00c13a1c41acb, 0x0000000000000},
            },
            {
                {0x0dc68eb4d9126, 0x0280a95b3fd9f, 0x66ecac332a674, 0x2cae9631c040b, 0x0036411cfbe98, 0xa6b708f39c81c, 0x5c902f25838f8, 0xa6c5006cb17cd},
                {0x4d29b152758e0, 0x0280327669309, 0x287d92a7c20fb, 0x1b227faaf82b3, 0xaa52ee436f262, 0xcbf006c5fbf01, 0x00ff49ad9700e, 0x0000000000000},
            },
            {
                {0xdfa3171c6b1f1, 0x3876accaacf13, 0x01b01add1c161, 0x55cf8a4c80cc1, 0x01c9392c35a3c, 0x2fa102c4ba0eb, 0xa81fa82d75003, 0xbc1bca0f4609d},
                {0x1153b8b21ee91, 0x021a8d5bc5683, 0x4fedc6c7c024d, 0xcdcdd5aea90e7, 0xd580ae77d0fe7, 0x26342c8965bd6, 0x01334a8f298e3, 0x0000000000000},
            },
        },
        {
            {
                {0xa473a5a68671b, 0xbfa6a26676bc8, 0xd17c4ed1543fb, 0xd122813a9c658, 0x02cb5cb452392, 0xa473a5a68671b, 0xbfa6a26676bc8, 0xd17c4ed1543fb},
                {0xd122813a9c658, 0x02cb5cb452392, 0xa473a5a68671b, 0xbfa6a26676bc8, 0xd17c4ed1543fb, 0xd122813a9c658, 0x02cb5cb452392, 0x0000000000000},
            },
            {
                {0x17c99d3892e2b, 0xaa60d0d2bc92b, 0xb1bb03f338671, 0x1f8df122366e5, 0x003cc11e8ef8f, 0x17c99d3892e2b, 0xaa60d0d2bc92b, 0xb1bb03f338671},
                {0x1f8df122366e5, 0x003cc11e8ef8f, 0x17c99d3892e2b, 0xaa60d0d2bc92b, 0xb1bb03f338671, 0x1f8df122366e5, 0x003cc11e8ef8f, 0x0000000000000},
            },
            {
                {0xaaab6aa2a7a30, 0x4d46186fda43b, 0xfd8bea72f2def, 0x42092b530b591, 0x02ca8ac99720f, 0xaaab6aa2a7a30, 0x4d46186fda43b, 0xfd8bea72f2def},
                {0x42092b530b591, 0x02ca8ac99720f, 0xaaab6aa2a7a30, 0x4d46186fda43b, 0xfd8bea72f2def, 0x42092b530b591, 0x02ca8ac99720f, 0x0000000000000},
            },
            {
                {0x279e4e17c5ba2, 0x9fe45a3f2b01d, 0x1bdc6ef43fdc8, 0x7ffa26a38b803, 0x02ececea0d8a8, 0x279e4e17c5ba2, 0x9fe45a3f2b01d, 0x1bdc6ef43fdc8},
                {0x7ffa26a38b803, 0x02ececea0d8a8, 0x279e4e17c5ba2, 0x9fe45a3f2b01d, 0x1bdc6ef43fdc8, 0x7ffa26a38b803, 0x02ececea0d8a8, 0x0000000000000},
            },
            {
                {0x4a36fef271c28, 0x79c15796d37ad, 0x1328f704ee7fe, 0xeb880d9a60e94, 0x017bfa4337148, 0x4a36fef271c28, 0x79c15796d37ad, 0x1328f704ee7fe},
                {0xeb880d9a60e94, 0x017bfa4337148, 0x4a36fef271c28, 0x79c15796d37ad, 0x1328f704ee7fe, 0xeb880d9a60e94, 0x017bfa4337148, 0x0000000000000},
            },
        },
        {
            {
                {0x1e250cd7962de, 0x97ad19b747624, 0x4223994c7db99, 0xd4dbb04c35719, 0x02abc7370b863, 0x3892fe482b9ca, 0x24a3fafa8b517, 0x552b7a4a8a7ce},
                {0x4846494e266c9, 0x02777c10161f7, 0xd719541b459f0, 0xc2c365b197542, 0x8a2bf4458186a, 0x7ee81653c77d6, 0x006847d63f31a, 0x0000000000000},
            },
            {
                {0x2792d973e7006, 0xed1a60591486f, 0x5686a00918446, 0x5238907409ee5, 0x00809282836c9, 0xa8005227886ce, 0x3569371f41282, 0x6612ab84a1633},
                {0xbd6863312d87a, 0x025f99df22bf6, 0x3e2d9b4562a15, 0xce7021f9d8a24, 0x4fbb9d2975f05, 0xdbaaa00cda8c6, 0x0083a9388170a, 0x0000000000000},
            },
            {
                {0xf2e3a7dd779ed, 0xab89e117c2140, 0xff055392e73f8, 0xc7ff511646360, 0x024ec494e6f5b, 0xc563abfa6bc84, 0x491b6ad639d7a, 0x051a4be63ea18},
                {0x8ced4ea7f05f2, 0x01abee3b0dda6, 0xfa5b66320d33f, 0xc258c789535c9, 0xd5d643dd91446, 0x96c7994105cd8, 0x016bc7986b0ac, 0x0000000000000},
            },
            {
                {0x351a9da0b601f, 0xa219faf3bfebf, 0x0943fa5697c46, 0xbd6ef2f6cdc93, 0x0086f89bf624e, 0x16fbc275374eb, 0xe285c9b81e797, 0x06273d7e20c4a},
                {0x9cf91de293311, 0x02f4e7e11684b, 0x58cdbbbcfcd55, 0xdcd05055b2cd8, 0x6d62e280ef804, 0xf1e3ab444ef54, 0x00e265793143c, 0x0000000000000},
            },
            {
                {0xa4fe9832cc920, 0x260f89a568213, 0x5659bc4720726, 0x2fe722c480c37, 0x01b5fcd355e04, 0x49d3b77c74d76, 0x82267e49c7143, 0xfc6ea779f1d12},
                {0x3c228bd44dfa5, 0x0256a02f69912, 0x2ba7484d358fc, 0x4597a5bb34c8d, 0xafb012c9e4123, 0x78550c3c712f1, 0x01135865e96af, 0x0000000000000},
            },
        },
        {
            {
                {0xacf3504d23c90, 0x9b42ba189fd0f, 0x952ec0e628615, 0x7e198eff10cd6, 0x01f961b82b70e, 0x4ba7eed17b04a, 0x689774734faf0, 0x75f043869b97b},
                {0xc7d5be4873487, 0x01af5eb5fdf3c, 0xca867f20ced54, 0x5b4c223036995, 0xcd4434f9106f9, 0xb866855dadbb9, 0x005538b71ce5c, 0x0000000000000},
            },
            {
                {0x87ffaf3542598, 0x7bc318efd288f, 0xf26d585de115d, 0x8139485182e0c, 0x024e2199f4623, 0xe6be8f7f63140, 0x23a24c732e35c, 0xeb26c11682d1c},
                {0x17c6c5906cbb4, 0x020a45fefbad6, 0xedaba7d6c2b3d, 0xd6ebb99e796fe, 0xe0f764c6218c9, 0xc9ca4a4e40479, 0x012aa084ccad8, 0x0000000000000},
            },
            {
                {0x0cd018ab2a287, 0x40b6b408a38c4, 0xe02d6cc9dffd8, 0x89464e356cc6e, 0x01d4bfc0f607f, 0x8722e30da3263, 0xcaf61647e3904, 0x1c0c2fdd52440},
                {0xd125a324beccd, 0x02dd43b6082f0, 0x828fddd443ba0, 0xf5c88e7ac0b61, 0x79e83b4e6fceb, 0x6cf1aeb4dafd8, 0x0157dba70ed96, 0x0000000000000},
            },
            {
                {0x87924ebc9f126, 0x1d1f1beb662c9, 0x7e2105d7e4dd2, 0x49aa655fe5e73, 0x01cf14901a3be, 0xb808398837902, 0xee5e0cfe4bca2, 0xe22c148771f51},
                {0xfb64e96291cb8, 0x027f1b7f0a6d0, 0x6dce63246d6e5, 0x8c38f8bfe39cb, 0x918508e19d8fd, 0xa30ccc1b0214d, 0x00c0b73f9b3c4, 0x0000000000000},
            },
            {
                {0x4027b903cab0c, 0x435527514639a, 0x372c8c42c28b7, 0xda2b221002ef1, 0x001df4d529dc6, 0x87eb25251e385, 0x17963e3b8f22e, 0x7d0375ae94c8f},
                {0x79b155c110ad6, 0x02fb89f53598a, 0xd2f5a91f37da9, 0xf92fcc41e8b0b, 0x28f836a2f54e7, 0xee3580f2b534d, 0x0234145e27950, 0x0000000000000},
            },
        },
        {
            {
                {0xf5ff01132f5dc, 0x89552632cd8cf, 0x3953c46e7c7c4, 0x2a98d2aa26b8f, 0x02aae001678ea, 0xe2834bdec0052, 0x9cdfb75ea0d01, 0xbf30901ee3a26},
                {0x7e7222d2a87a9, 0x00784644e14f8, 0xe5dfb431107a5, 0xbaef13211fe22, 0x4c18924ce954d, 0x1e4b3e6f2dcab, 0x02bd621d696fd, 0x0000000000000},
            },
            {
                {0x518adc952e735, 0x13e38d4beb9be, 0x1ee2cb8172532, 0x302b431d1c484, 0x01db372424a09, 0x428c4fb3e14de, 0x162942e521f26, 0x78e75711a878c},
                {0xbb33ed450495f, 0x01d3dbb1a58d8, 0xad651ca08dc20, 0x900b8e04485d8, 0xa080762e51b71, 0xadb32579e6ea1, 0x02cb2d1e4c8c7, 0x0000000000000},
            },
            {
                {0x6c3a05c53605b, 0x2c517278f33ee, 0x2616032e3487f, 0xad796bb756ad8, 0x01aab0d5035ea, 0xbfb8b64485626, 0xb84e887f264f3, 0xa505e037d2bee},
                {0x1a11ef07556b0, 0x024a12ade61f6, 0x3b1bc3042d741, 0x63c8e725bf4fb, 0xc5201ac3803d4, 0xbbfa4f3ae3c6e, 0x0074c21c9cd0c, 0x0000000000000},
            },
            {
                {0x6bebe0d652d7e, 0x5db6fc217c2f9, 0xf731b7470e485, 0x0db10cf000225, 0x023809689d6e4, 0x5fff4f8763751, 0xa92b4b5463da4, 0xd5438d031073d},
                {0xda345d2d2a4b1, 0x00fae45df045f, 0xf5c2832d62f4a, 0xad6573c722f3f, 0xffca59f6a258f, 0xf1905ab0a0e59, 0x00f7183d83f4c, 0x0000000000000},
            },
            {
                {0xa74f5b66c2026, 0x79c4ee3a9d7b1, 0x540e1a30730a3, 0x4e1ce9ca76cfb, 0x0068a5c6088aa, 0x02a7b6d114dae, 0x17e50b0b357d8, 0xce67fc6cf802a},
                {0x9e00a2392d353, 0x02a6506f232bf, 0x5ba705f3592ca, 0x8c46197a6256a, 0x9ca46e06049ca, 0x87552a7994bf1, 0x017c59cc0425e, 0x0000000000000},
            },
        },
    };
static const uint64_t P1_LEAVE_CONSTANT[2][8] __attribute__((aligned(64))) = {
        {0x5bb6efe6db945, 0x1b31e31fe45f8, 0xf17e3b1500f27, 0xae0903e059a6b, 0x02ee147fb93f3, 0x4dc4a099b83f6, 0xb666c7997cc39, 0x63e15c07a6470},
        {0x9385d60cf3edf, 0x0148125ab52bb, 0xfc31543598f5b, 0x54d4c161f91ec, 0xcdef28fa7712c, 0xde8933902f511, 0x0243b200a0476, 0x0000000000000},
    };
static const uint64_t P1_LEAVE_X[5][8] __attribute__((aligned(64))) = {
        {0x9a890837d3ee1, 0xf3bafd024697a, 0xd077f718ca0a8, 0xe5ad0428a3533, 0x001e64cdb0609, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xd157051cffda1, 0x07a14dd84d2f6, 0xb54eada0faa44, 0x263bb4d4c73e6, 0x02c62920a965c, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0xa49fda13ef0f2, 0x6b73eff0719d9, 0x0d2d919ba0ab9, 0xc49c9d15219d7, 0x027285cb3f538, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x725bb2c39c4ec, 0x815eea9621229, 0xd8d286dd050bc, 0x09fa311133696, 0x00b2c768e82aa, 0x0000000000000, 0x0000000000000, 0x0000000000000},
        {0x064afb8d8ccfd, 0xf83be3029a911, 0x6e4b4dac40dd6, 0x30314cd074995, 0x01e6e41897645, 0x0000000000000, 0x0000000000000, 0x0000000000000},
    };
static const uint64_t P1_MODULUS_3[2][8] __attribute__((aligned(64))) = {
        {0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131, 0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8},
        {0xa029b85045b68, 0x030644e72e131, 0x1f593f0000001, 0x4879b9709143e, 0x181585d2833e8, 0xa029b85045b68, 0x030644e72e131, 0x0000000000000},
    };
#endif

#endif
